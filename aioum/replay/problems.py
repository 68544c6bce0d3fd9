"""What is wrong with an artifact, with reason codes."""

from __future__ import annotations

from dataclasses import dataclass

from aioum.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with an artifact.

    Attributes:
        code: stable kebab-case reason code.
        message: what was found and what was expected, for people.
        where: the place in the artifact, such as `header.seatKeys[0]` or `record 3 input 0`.
    """

    code: str
    message: str
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class ArtifactInvalid(InvalidInput):
    """The artifact's form is wrong, so there is nothing to judge. `code` is the first problem's.

    Attributes:
        problems: at least one, in order of the lines, at most as many as the limits say.
    """

    default_code = "artifact-invalid"

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(
            "; ".join(map(str, problems)),
            code=problems[0].code,
            details={"problems": [{"code": each.code, "where": each.where} for each in problems]},
        )
        self.problems = tuple(problems)
