// Package metrics is the vocabulary of runvigil: what was learnt (Frame), what
// should be learnt next (Want), what is known (Snapshot) and what is wrong
// (Finding).
//
// The state of a node is a pure fold over frames. Nothing below this package
// reads a clock, a file or a socket: time comes with the frame, and so a
// recording, a replay, a test and a live run are the same computation.
package metrics
