"""Options that commands of both programs take: the client's and the node's."""
