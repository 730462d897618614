package simnode

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// nodeEnv names the node's folder in the environment of all its processes;
// without it Main never acts.
const nodeEnv = "RUNVIGIL_SIMNODE"

// roleEnv tells a child of the server whom it plays.
const roleEnv = "RUNVIGIL_SIMNODE_ROLE"

// supervisorName is argv[0] of the process at the node's root.
const supervisorName = "runvigil-simnode"

// Main plays the process of a simulated node that args name, if this is one:
// a program's main calls it with os.Args before anything else, and exits with
// code when handled is true.
func Main(args []string) (handled bool, code int) {
	dir := os.Getenv(nodeEnv)
	if dir == "" || len(args) == 0 {
		return false, 0
	}
	switch filepath.Base(args[0]) {
	case supervisorName:
		return true, supervise(dir)
	case "nvidia-smi":
		return true, nvidiaSMI(dir, args[1:])
	case "dmesg":
		return true, kernelLog(dir)
	case "python3", "python":
		return true, python(dir, args)
	default:
		return false, 0
	}
}

// python is the node's interpreter: it plays the server, its children and the
// client, and hands everything else to the machine's own python3.
func python(dir string, args []string) int {
	options := 1
	for options < len(args) && (args[options] == "-u" || args[options] == "-B") {
		options++
	}
	rest := args[options:]
	switch {
	case len(rest) > 1 && rest[0] == "-m" && (rest[1] == "sglang.launch_server" || rest[1] == "vllm.entrypoints.openai.api_server"):
		return runServer(dir, args)
	case len(rest) > 0 && filepath.Base(rest[0]) == "run_inference.py":
		return runClient(dir, args)
	case len(rest) > 1 && rest[0] == "-c" && os.Getenv(roleEnv) != "":
		return runWorker(dir, os.Getenv(roleEnv), args)
	}
	return otherPython(dir, args)
}

func otherPython(dir string, args []string) int {
	own := filepath.Join(dir, "bin")
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		if folder == own {
			continue
		}
		path, err := exec.LookPath(filepath.Join(folder, "python3"))
		if err != nil {
			continue
		}
		if err := syscall.Exec(path, args, os.Environ()); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			return 126
		}
	}
	fmt.Fprintln(os.Stderr, "python3: this machine has no interpreter for anything but the simulated server and client")
	return 127
}

// join connects this process to its node and says who it is.
func join(dir, role string, argv []string) (*link, error) {
	conn, err := net.Dial("unix", socketPath(dir))
	if err != nil {
		return nil, fmt.Errorf("the simulated node in %s does not answer, it may have ended: %w", dir, err)
	}
	cwd, _ := os.Getwd()
	l := newLink(conn)
	l.send(message{Kind: kindHello, Role: role, PID: os.Getpid(), Parent: os.Getppid(), Argv: argv, Env: os.Environ(), Dir: cwd})
	return l, nil
}

// endAs ends this process so that a parent's wait sees code as a shell does.
func endAs(code int) {
	if code > 128 {
		sig := syscall.Signal(code - 128)
		signal.Reset(sig)
		_ = syscall.Kill(os.Getpid(), sig)
		// A caught or ignored signal is still on its way here or never comes.
		time.Sleep(time.Second)
	}
	os.Exit(code)
}

// quitSilently keeps SIGQUIT from printing this program's own stacks where a
// Python process prints nothing.
func quitSilently() {
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	go func() {
		<-quit
		os.Exit(128 + int(syscall.SIGQUIT))
	}()
}

func descriptor(number int) *os.File {
	if number == syscall.Stdout {
		return os.Stdout
	}
	return os.Stderr
}

// nvidiaSMI prints what the model's nvidia-smi says, once or in a loop.
func nvidiaSMI(dir string, args []string) int {
	conn, err := net.Dial("unix", socketPath(dir))
	if err != nil {
		fmt.Println("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.")
		return 9
	}
	l := newLink(conn)
	every := loopInterval(args)
	next := time.Now()
	for {
		l.send(message{Kind: kindSMI, Argv: args})
		reply, err := l.receive()
		if err != nil {
			return 9
		}
		if _, err := os.Stdout.WriteString(reply.Text); err != nil {
			return 1
		}
		if every == 0 || reply.Code != 0 {
			return reply.Code
		}
		next = next.Add(every)
		time.Sleep(time.Until(next))
	}
}

// loopInterval reads -l, -lms and their long forms; 0 means once.
func loopInterval(args []string) time.Duration {
	units := map[string]time.Duration{
		"-l": time.Second, "--loop": time.Second,
		"-lms": time.Millisecond, "--loop-ms": time.Millisecond,
	}
	for i, arg := range args {
		name, value, glued := strings.Cut(arg, "=")
		unit, loops := units[name]
		if !loops {
			continue
		}
		if !glued && i+1 < len(args) {
			value = args[i+1]
		}
		if n, err := strconv.Atoi(value); err == nil && n > 0 {
			return time.Duration(n) * unit
		}
		return 5 * time.Second
	}
	return 0
}

// kernelLog is dmesg: the kernel of the node, not of this machine.
func kernelLog(dir string) int {
	text, err := os.ReadFile(places{dir: dir}.kernel())
	if err != nil {
		fmt.Fprintln(os.Stderr, "dmesg: read kernel buffer failed:", err)
		return 1
	}
	_, _ = os.Stdout.Write(text)
	return 0
}

// withoutEnv is environ less the named variables.
func withoutEnv(environ []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(names, name)
	})
}
