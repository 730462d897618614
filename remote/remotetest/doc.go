// Package remotetest is test support: it starts real SSH servers on a loopback
// port, with keys and configuration of their own in a temporary folder, for
// tests with the build tag "system". No file of the user's is read or written.
//
// Start one with [OpenSSH] or [Dropbear]; both end with the test.
package remotetest
