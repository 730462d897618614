// Package findings judges a node: one file a detector, one registry, one state
// machine for duration, hysteresis and acknowledgement.
//
// A detector is a pure function of the snapshot (and the little history that
// Input carries) that reports conditions. The Engine turns conditions into
// findings: it waits until a condition has held long enough (the node's own
// evidence may prove that at once), keeps a finding until the condition has been
// gone long enough, and remembers what changed and what the operator decided.
package findings
