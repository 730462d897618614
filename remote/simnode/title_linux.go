package simnode

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"
)

// Positions after the command's closing parenthesis in /proc/self/stat of the
// bounds of the memory that holds argv and the environment (proc(5): fields
// 48 to 51, the first after the parenthesis being field 3).
const (
	statArgStart = 48 - 3
	statEnvEnd   = 51 - 3
)

// setTitle does to this process what setproctitle does: its argv becomes the
// title padded with NULs, its environment in /proc becomes all NULs, and its
// name the title's first 15 bytes.
func setTitle(title string) error {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return fmt.Errorf("retitle the process: %w", err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= statEnvEnd {
		return fmt.Errorf("retitle the process: /proc/self/stat has %d fields, too few", len(fields))
	}
	var bounds [statEnvEnd - statArgStart + 1]uintptr
	for i := range bounds {
		at, err := strconv.ParseUint(fields[statArgStart+i], 10, 64)
		if err != nil {
			return fmt.Errorf("retitle the process: bounds of argv in /proc/self/stat: %w", err)
		}
		bounds[i] = uintptr(at)
	}
	argStart, argEnd, envStart, envEnd := bounds[0], bounds[1], bounds[2], bounds[3]
	// os.Args[0] still points into the memory that the kernel filled: that is
	// where argv begins, and what keeps this from writing anywhere else.
	first := unsafe.Pointer(unsafe.StringData(os.Args[0]))
	if uintptr(first) != argStart || argEnd <= argStart+1 || envStart < argEnd || envEnd < envStart {
		return fmt.Errorf("retitle the process: argv is not where the kernel says")
	}
	args := unsafe.Slice((*byte)(first), int(argEnd-argStart))
	environ := unsafe.Slice((*byte)(unsafe.Add(first, envStart-argStart)), int(envEnd-envStart))
	clear(environ)
	// A last byte that is not NUL would make the kernel read on into the
	// environment.
	clear(args[copy(args[:len(args)-1], title):])
	return os.WriteFile("/proc/self/comm", []byte(title), 0)
}
