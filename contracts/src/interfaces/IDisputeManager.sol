// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ICredits} from "./ICredits.sol";
import {IPaymentManager} from "./IPaymentManager.sol";
import {IServiceRegistry} from "./IServiceRegistry.sol";

/// @notice What a payer complains of.
enum Claim {
    NonDelivery,
    WrongResult,
    Quality
}

/// @notice Where a session's dispute stands. `Overtaken`: a lie was proven before anybody ruled.
enum DisputeState {
    None,
    Pending,
    Ruled,
    Lapsed,
    Overtaken
}

/// @notice What was proven against an operator (PROTOCOL 4.3, L1 to L4). `Unanswered` is L4: it could not, or did not,
/// show that its word is part of what it anchored.
enum Lie {
    DoubleSigning,
    Omission,
    Overcharge,
    Unanswered
}

/// @notice The operator's word on one call: CallReceipt(bytes32 channelId,uint64 index,bytes32 leaf,uint128 charge).
/// @param leaf The call's leaf in the session's transcript (PROTOCOL 2).
/// @param charge Base units; 0 where the call failed.
/// @param signature 65 bytes r, s, v of the terms' receiptSigner, low s, v 27 or 28.
struct Receipt {
    uint64 index;
    bytes32 leaf;
    uint128 charge;
    bytes signature;
}

/// @notice The operator's word on the first `callCount` calls:
/// Statement(bytes32 channelId,uint64 callCount,bytes32 root,uint128 spent).
/// @param root The transcript's root over them.
/// @param spent Their charges in all, base units.
/// @param signature As in `Receipt`.
struct Statement {
    uint64 callCount;
    bytes32 root;
    uint128 spent;
    bytes signature;
}

/// @notice All that happened to a session's held money. Times are unix seconds.
/// @param ruleBy The arbitrator rules before it; stands still while a challenge is pending. Zero without a dispute.
/// @param answerBy A pending challenge is answered before it; zero where none is pending.
/// @param challengedWord keccak256(abi.encode(Word kind, index or callCount, leaf or root)) of the pending challenge.
/// @param awarded What a decision gave back to the payer, base units.
struct Case {
    DisputeState dispute;
    uint64 raisedAt;
    uint64 ruleBy;
    uint64 answerBy;
    bytes32 challengedWord;
    uint128 awarded;
}

/// @title Decisions over held money
/// @notice What a session captured under a dispute window is held by the PaymentManager. Inside the window the payer
/// may raise one dispute for the terms' arbitrator to rule on, and may challenge the operator to show that what it
/// signed is part of what it anchored; anybody who holds two words of the operator that cannot both be true may show
/// them. Bonds are the terms' disputeBond in the terms' token. There is no owner: nobody but the terms' arbitrator rules.
/// @dev The signatures are over the PaymentManager's EIP-712 domain. ERC-1497 events carry the channel's id as the id of
/// the dispute and of its evidence group.
interface IDisputeManager is ICredits {
    /// @notice The payer disputes what was captured; the arbitrator has until `ruleBy`.
    event DisputeRaised(
        bytes32 indexed channelId,
        address indexed payer,
        address indexed arbitrator,
        Claim claim,
        string evidenceURI,
        bytes32 evidenceHash,
        uint64 ruleBy,
        uint128 bond
    );

    /// @notice The operator's side of a dispute; `responseHash` is keccak256 of what lies at `responseURI`.
    event Responded(bytes32 indexed channelId, address indexed operator, string responseURI, bytes32 responseHash);

    /// @notice The arbitrator gave `award` of what was held back to the payer.
    event Ruled(bytes32 indexed channelId, address indexed arbitrator, uint128 award);

    /// @notice Nobody ruled in time: the dispute is over, and the held money stays held until its window is over.
    event Lapsed(bytes32 indexed channelId);

    /// @notice The operator was shown to have lied: all `amount` that was held went back to the payer.
    event LieProven(bytes32 indexed channelId, Lie indexed lie, address indexed prover, uint128 amount);

    /// @notice The operator has until `answerBy` to show that call `index` of its anchored history has this leaf.
    event ReceiptChallenged(bytes32 indexed channelId, uint64 index, bytes32 leaf, uint64 answerBy, uint128 bond);

    /// @notice The operator has until `answerBy` to show that its anchored history begins with these calls.
    event StatementChallenged(bytes32 indexed channelId, uint64 callCount, bytes32 root, uint64 answerBy, uint128 bond);

    /// @notice The pending challenge was answered; its bond went to the payee.
    event ChallengeAnswered(bytes32 indexed channelId, address indexed answerer);

    /// @notice A bond was paid, or credited, to whom it is due.
    event BondPaid(bytes32 indexed channelId, address indexed to, uint128 amount);

    /// @notice ERC-1497: how disputes of this contract are to be understood.
    event MetaEvidence(uint256 indexed _metaEvidenceID, string _evidence);

    /// @notice ERC-1497: a party's evidence, by its URI.
    event Evidence(
        address indexed _arbitrator, uint256 indexed _evidenceGroupID, address indexed _party, string _evidence
    );

    /// @notice ERC-1497: a dispute is now the arbitrator's.
    event Dispute(
        address indexed _arbitrator, uint256 indexed _disputeID, uint256 _metaEvidenceID, uint256 _evidenceGroupID
    );

    /// @notice Only the session's payer may do this.
    error NotSessionPayer(bytes32 channelId, address caller);
    /// @notice Only the operator of the session's terms may do this.
    error NotSessionOperator(bytes32 channelId, address caller);
    /// @notice Only the arbitrator of the session's terms may do this.
    error NotArbitrator(bytes32 channelId, address caller);
    /// @notice The session's terms name no arbitrator.
    error NoArbitrator(bytes32 channelId);
    /// @notice Nothing is held for the session: it is unknown, nothing was captured, there is no window, or it left.
    error NoMoneyHeld(bytes32 channelId);
    /// @notice The window opens when the channel is over.
    error WindowNotOpen(bytes32 channelId);
    /// @notice The window ended at `heldUntil`.
    error WindowClosed(bytes32 channelId, uint64 heldUntil);
    /// @notice A session is disputed once.
    error AlreadyDisputed(bytes32 channelId);
    /// @notice No dispute is pending.
    error NoDisputePending(bytes32 channelId);
    /// @notice The arbitrator had until `ruleBy`.
    error RulingTooLate(bytes32 channelId, uint64 ruleBy);
    /// @notice The arbitrator still has until `ruleBy`.
    error RulingStillDue(bytes32 channelId, uint64 ruleBy);
    /// @notice An award cannot be more than is held.
    error AwardAboveHeld(bytes32 channelId, uint128 held, uint128 award);
    /// @notice The evidence hash must be given.
    error EvidenceHashMissing(bytes32 channelId);
    /// @notice The URI is empty or longer than `maximum` bytes.
    error URILengthInvalid(uint256 length, uint256 maximum);
    /// @notice A challenge is pending; it must be answered, or be found unanswered at `answerBy`, first.
    error ChallengePending(bytes32 channelId, uint64 answerBy);
    /// @notice No challenge is pending.
    error NoChallengePending(bytes32 channelId);
    /// @notice The operator still has until `answerBy`.
    error AnswerStillDue(bytes32 channelId, uint64 answerBy);
    /// @notice The answer was due before `answerBy`.
    error AnswerTooLate(bytes32 channelId, uint64 answerBy);
    /// @notice The answer is about another word than the challenge.
    error AnswersAnotherWord(bytes32 channelId, bytes32 challengedWord, bytes32 answeredWord);
    /// @notice The proof does not lead to the anchored root.
    error ProofInvalid(bytes32 channelId);
    /// @notice The word was not signed by the terms' receiptSigner.
    error NotOperatorsWord(bytes32 channelId, address receiptSigner, address signer);
    /// @notice The two words are about different calls, or say the same.
    error WordsDoNotConflict(bytes32 channelId);
    /// @notice The word is about a call within the anchored history.
    error NothingOmitted(bytes32 channelId, uint64 callCount);
    /// @notice The words do not cover the anchored history exactly, in order, or are more than `maximum`.
    error CoverageInvalid(bytes32 channelId, uint64 callCount, uint256 maximum);
    /// @notice What was captured is covered by the charges.
    error NotOvercharged(bytes32 channelId, uint256 charged, uint128 captured);
    /// @notice Only a word about the anchored history can be challenged.
    error NotChallengeable(bytes32 channelId, uint64 callCount);

    /// @notice Disputes what a session captured. By its payer, once, inside the window; pulls the bond.
    /// @param evidenceURI Where the evidence package lies, 1 to 8,192 bytes; an event only.
    /// @param evidenceHash keccak256 of the published bytes.
    function raiseDispute(bytes32 channelId, Claim claim, string calldata evidenceURI, bytes32 evidenceHash) external;

    /// @notice Adds the operator's side to a pending dispute, as often as it likes.
    function respond(bytes32 channelId, string calldata responseURI, bytes32 responseHash) external;

    /// @notice Rules on a pending dispute: `award` of what is held goes to the payer, the rest to the payee. By the
    /// terms' arbitrator, before `ruleBy`, while no challenge is pending. The bond goes back where anything is awarded,
    /// else to the payee.
    function rule(bytes32 channelId, uint128 award) external;

    /// @notice Ends a dispute that nobody ruled on. By anyone, from `ruleBy` on, while no challenge is pending. The bond
    /// goes to the payee, the held money stays held until `release`.
    function lapse(bytes32 channelId) external;

    /// @notice L1: two receipts of one call with another leaf or charge. By anyone; all that is held goes to the payer.
    function proveConflictingReceipts(bytes32 channelId, Receipt calldata one, Receipt calldata other) external;

    /// @notice L1: two statements over equally many calls with another root or sum.
    function proveConflictingStatements(bytes32 channelId, Statement calldata one, Statement calldata other) external;

    /// @notice L1: a statement over all anchored calls with another root than the anchored one.
    function proveStatementAgainstRoot(bytes32 channelId, Statement calldata statement) external;

    /// @notice L2: a receipt of a call behind the end of what was anchored.
    function proveOmittedReceipt(bytes32 channelId, Receipt calldata receipt) external;

    /// @notice L2: a statement over more calls than were anchored.
    function proveOmittedStatement(bytes32 channelId, Statement calldata statement) external;

    /// @notice L3: more was captured than a statement over the first calls and one receipt for each further call add up to.
    /// @param statement Its `callCount` k is at most the anchored one; 0: there is no statement, the rest is not looked at.
    /// @param receipts Of the calls k, k+1, … to the last anchored one, in order; at most 32.
    function proveOvercharge(bytes32 channelId, Statement calldata statement, Receipt[] calldata receipts) external;

    /// @notice L4: asks the operator to show that the anchored history has the receipt's leaf at its index. By the payer,
    /// inside the window, one challenge at a time; pulls the bond.
    function challengeReceipt(bytes32 channelId, Receipt calldata receipt) external;

    /// @notice L4: asks the operator to show that the anchored history begins with what the statement is over.
    function challengeStatement(bytes32 channelId, Statement calldata statement) external;

    /// @notice Answers a challenged receipt, by anyone who has the proof. The bond goes to the payee.
    /// @param siblings Bottom-up inclusion proof of PROTOCOL 2; exactly what the shape asks for.
    function answerReceipt(bytes32 channelId, uint64 index, bytes32 leaf, bytes32[] calldata siblings) external;

    /// @notice Answers a challenged statement, by anyone who has the proof. The bond goes to the payee.
    /// @param proof RFC 9162 consistency proof (over PROTOCOL 2's node hash) from the statement to what was anchored.
    function answerStatement(bytes32 channelId, uint64 callCount, bytes32 root, bytes32[] calldata proof) external;

    /// @notice Ends a challenge that nobody answered: all that is held goes to the payer. By anyone, from `answerBy` on.
    function claimUnanswered(bytes32 channelId) external;

    /// @notice Whether a dispute or a challenge is pending.
    function isPending(bytes32 channelId) external view returns (bool);

    /// @notice What a decision gave back to the payer, base units.
    function awarded(bytes32 channelId) external view returns (uint128);

    /// @notice All that happened to a session's held money; all zero where nothing did.
    function caseOf(bytes32 channelId) external view returns (Case memory);

    /// @notice Seconds that an operator has to answer a challenge.
    function answerPeriodSeconds() external view returns (uint64);

    /// @notice Who holds the money.
    function paymentManager() external view returns (IPaymentManager);

    /// @notice Where terms are read.
    function registry() external view returns (IServiceRegistry);
}
