// Package remote is one connection to one node: commands, long-lived
// processes, terminals and TCP through it, behind the type [Conn].
//
// Three dialers end in the same type. "openssh" lets the user's own ssh client
// authenticate and speaks SSH channels over its control socket, so that the
// user's whole configuration holds. "native" is golang.org/x/crypto/ssh with
// the user's known_hosts, keys and agent. "local" is this machine. Whatever a
// login asks goes to a [Prompter]; without one it becomes a
// [PromptNeededError]. [Link] keeps a connection up and says why it is not.
package remote
