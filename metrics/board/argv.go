package board

import (
	"path"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// flagValue gives the last value of a flag under any of its names (without
// dashes), as --name VALUE or --name=VALUE; dash and underscore are equal.
func flagValue(argv []string, names ...string) (string, bool) {
	value, ok := "", false
	for i, a := range argv {
		name, v, has := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if !strings.HasPrefix(a, "-") || !isName(name, names) {
			continue
		}
		switch {
		case has:
			value, ok = v, true
		case i+1 < len(argv) && !strings.HasPrefix(argv[i+1], "--"):
			value, ok = argv[i+1], true
		}
	}
	return value, ok
}

// flagSet tells whether a flag without a value is there.
func flagSet(argv []string, names ...string) bool {
	for _, a := range argv {
		if strings.HasPrefix(a, "-") && isName(strings.TrimLeft(a, "-"), names) {
			return true
		}
	}
	return false
}

func isName(name string, names []string) bool {
	name = strings.ReplaceAll(name, "_", "-")
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

func flagInt(argv []string, names ...string) int {
	v, ok := flagValue(argv, names...)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0
	}
	return n
}

// engineOf tells which engine an argument vector starts, "" for none. Wrappers
// that only carry the command (sudo, numactl, a shell) are no engine.
func engineOf(argv []string) string {
	if len(argv) < 2 {
		return ""
	}
	prog := path.Base(argv[0])
	switch {
	case prog == "sglang" && argv[1] == "serve":
		return "sglang"
	case prog == "vllm" && argv[1] == "serve":
		return "vllm"
	case !isPython(prog):
		return ""
	}
	for i := 1; i < len(argv); i++ {
		a := argv[i]
		switch {
		case a == "-m" && i+1 < len(argv):
			switch m := argv[i+1]; {
			case m == "sglang.launch_server":
				return "sglang"
			case strings.HasPrefix(m, "vllm.entrypoints.") && strings.HasSuffix(m, "api_server"):
				return "vllm"
			}
			return ""
		case a == "-c":
			return ""
		case strings.HasPrefix(a, "-"):
		case strings.HasSuffix(a, "sglang/launch_server.py"):
			return "sglang"
		case path.Base(a) == "sglang" && i+1 < len(argv) && argv[i+1] == "serve":
			return "sglang"
		case path.Base(a) == "vllm" && i+1 < len(argv) && argv[i+1] == "serve":
			return "vllm"
		default:
			return ""
		}
	}
	return ""
}

// engineTitle tells which engine's child gave itself this title, "" for none.
func engineTitle(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	switch {
	case strings.HasPrefix(argv[0], "sglang::"):
		return "sglang"
	case strings.HasPrefix(argv[0], "VLLM::"):
		return "vllm"
	}
	return ""
}

// engineWorker tells a process that an engine titled; where the title did not
// reach the arguments, the name still has its first 15 bytes.
func engineWorker(p metrics.Proc) bool {
	return engineTitle(p.Argv) != "" || engineTitle([]string{p.Comm}) != ""
}

func isPython(prog string) bool {
	return strings.HasPrefix(prog, "python") || strings.HasPrefix(prog, "pypy")
}

// modelOf is the model's short name, "" unknown.
func modelOf(engine string, argv []string) string {
	if v, ok := flagValue(argv, "served-model-name"); ok {
		return v
	}
	if v, ok := flagValue(argv, "model-path", "model"); ok {
		return shortModel(v)
	}
	for i, a := range argv {
		if a == "serve" && i+1 < len(argv) && !strings.HasPrefix(argv[i+1], "-") {
			return shortModel(argv[i+1])
		}
	}
	return ""
}

func shortModel(p string) string {
	p = strings.TrimRight(p, "/")
	if p == "" {
		return ""
	}
	return path.Base(p)
}

// unbuffered tells whether a Python process writes its output at once: nil
// where neither argv nor a read environment can tell.
func unbuffered(argv []string, env map[string]string, envRead bool) *bool {
	yes, no := true, false
	for _, a := range argv[min(1, len(argv)):] {
		if !strings.HasPrefix(a, "-") || a == "-m" || a == "-c" {
			break
		}
		if !strings.HasPrefix(a, "--") && strings.Contains(a, "u") {
			return &yes
		}
	}
	if env["PYTHONUNBUFFERED"] != "" {
		return &yes
	}
	if envRead {
		return &no
	}
	return nil
}
