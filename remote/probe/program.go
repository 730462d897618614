package probe

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/runvigil/runvigil/remote/posix"
)

var (
	//go:embed sh/loop.sh
	loopSh string
	//go:embed sh/ctl.sh
	ctlSh string
	//go:embed sh/files.sh
	filesSh string
	//go:embed sh/scan.sh
	scanSh string
	//go:embed sh/gpu.sh
	gpuSh string
)

// requestProgram is the program of a request and answer shell. It holds every
// function, so that any channel can take over another's work. A relay keeps a
// blocked worker from holding the session.
func requestProgram(relay bool) func(nonce string) string {
	r := "0"
	if relay {
		r = "1"
	}
	body := strip(loopSh + ctlSh + filesSh + scanSh)
	return func(nonce string) string {
		return "N=" + nonce + "\nR=" + r + "\n" + body + "main\n"
	}
}

// gpuProgram streams the fields of nvidia-smi each ms milliseconds, after a line
// that names them. Without a path and fields the node finds them out.
func gpuProgram(smi string, fields []string, ms int, libs bool) func(nonce string) string {
	begin := "stream\n"
	if libs {
		begin = "libs\nstream\n"
	}
	var wanted []string
	for _, names := range streamFields {
		wanted = append(wanted, strings.Join(names, "|"))
	}
	vars := fmt.Sprintf("libs() { %s\n}\nG=%s\nF=%s\nC=%s\nD=%s\nM=%d\n", nvidiaLibs, quote(smi), quote(strings.Join(fields, ",")),
		quote(strings.Join(wanted, " ")), quote(strings.Join(coreStream, ",")), ms)
	body := strip(loopSh + gpuSh)
	return func(nonce string) string { return "N=" + nonce + "\n" + vars + body + begin }
}

// nvidiaLibs is for containers whose loader does not know the driver's folder.
const nvidiaLibs = "LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/local/nvidia/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; export LD_LIBRARY_PATH"

// strip drops comments and indentation: a shell reads its program byte by byte.
func strip(program string) string {
	var b strings.Builder
	for line := range strings.Lines(program) {
		line = strings.TrimLeft(line, "\t ")
		if line == "\n" || strings.HasPrefix(line, "#") {
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

// quote makes s one word of the shell. Words with a newline or NUL cannot be
// sent in a request, which is one line; see sendable.
func quote(s string) string {
	q, err := posix.Quote(s)
	if err != nil {
		return "''"
	}
	return q
}

// sendable tells whether a path can stand in a request.
func sendable(path string) bool {
	return path != "" && !strings.ContainsAny(path, "\n\x00")
}
