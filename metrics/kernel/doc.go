// Package kernel reads what the kernel log says about GPUs and about processes
// that were killed for memory: dmesg with uptimes or with dates in any
// language, journalctl and syslog. Other lines are passed over.
package kernel
