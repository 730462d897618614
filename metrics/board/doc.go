// Package board is the fold: frames in, a snapshot and the next wants out.
//
// A Board is a pure function of the frames it was given, in their order. It
// reads no clock, no file and no socket; the newest frame's time is its present.
// The same frames give equal snapshots, whether they come live or from a
// recording.
package board
