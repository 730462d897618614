package probe

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/runvigil/runvigil/metrics"
	"github.com/runvigil/runvigil/remote/remotetest"
)

// playEnv makes this test binary play a process of a node: "server PORT" or
// "client PORT ROWS".
const playEnv = "RUNVIGIL_PLAY"

func TestMain(m *testing.M) {
	if role := os.Getenv(playEnv); role != "" {
		play(strings.SplitN(role, " ", 3))
		return
	}
	os.Exit(m.Run())
}

func play(role []string) {
	switch role[0] {
	case "server":
		l, err := net.Listen("tcp", "127.0.0.1:"+role[1])
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		go func() {
			fmt.Println(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/server_info") && r.Header.Get("Authorization") != "Bearer open-sesame-123" {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				fmt.Fprintf(w, `{"path":%q,"api_key":"open-sesame-123","admin_api_key":"another-secret"}`+"\n", r.URL.Path)
			})))
		}()
	case "client":
		rows, err := os.OpenFile(role[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		defer rows.Close()
		for range 3 {
			c, err := net.Dial("tcp", "127.0.0.1:"+role[1])
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			defer c.Close()
		}
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin) // until the test ends
}

// actor starts this binary under another command line and waits until it is ready.
func actor(t *testing.T, role string, env []string, argv ...string) int {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Args = argv
	cmd.Env = append(os.Environ(), append(env, playEnv+"="+role)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	buf := make([]byte, 256)
	n, _ := out.Read(buf)
	if string(buf[:n]) != "ready\n" {
		t.Fatalf("%s: %s", role, buf[:n])
	}
	return cmd.Process.Pid
}

func process(s metrics.Scan, pid int) *metrics.Proc {
	for i := range s.Procs {
		if s.Procs[i].PID == pid {
			return &s.Procs[i]
		}
	}
	return nil
}

func TestDiscovery(t *testing.T) { discoverProcesses(t, newLocalNode(t)) }

func discoverProcesses(t *testing.T, n *localNode) {
	port := strconv.Itoa(remotetest.FreePort(t))
	rows := t.TempDir() + "/B2 it's.jsonl"
	server := actor(t, "server "+port, []string{"CUDA_VISIBLE_DEVICES=0,1", "HF_TOKEN=unseen-value", "SGLANG_TOKEN=notforus1"},
		"python3", "-m", "sglang.launch_server", "--port", port, "--api-key", "open-sesame-123", "--model-path", "/models/Kimi K2.5")
	client := actor(t, "client "+port+" "+rows, []string{"PYTHONUNBUFFERED=1", "REQUEST_TIMEOUT=600"}, "python3", "run_inference.py")
	w := watch(t, n, Options{})
	var s metrics.Scan
	f := w.until("both processes", decoded(metrics.KindScan, func(got metrics.Scan) bool {
		s = got
		return process(got, server) != nil && process(got, client) != nil
	}))
	if strings.Contains(string(f.Data), "open-sesame") || strings.Contains(string(f.Data), "notforus") || strings.Contains(string(f.Data), "unseen-value") {
		t.Errorf("a secret is in the scan")
	}
	p := process(s, server)
	number, _ := strconv.Atoi(port)
	if !slices.Contains(p.Argv, "/models/Kimi K2.5") || !slices.Contains(p.Listen, metrics.ListenAddr{Addr: "127.0.0.1", Port: number}) ||
		p.Env["CUDA_VISIBLE_DEVICES"] != "0,1" || !p.EnvRead || p.Cwd == "" || p.Start == 0 || p.Threads < 2 || p.RSS < 1<<20 || p.UID != os.Getuid() ||
		!strings.HasPrefix(p.FD1, "pipe:[") || p.Exe == "" {
		t.Errorf("server %+v", p)
	}
	p = process(s, client)
	if !slices.Equal(p.Conns, []metrics.Conn{{Port: number, Count: 3}}) || !slices.Equal(p.Files, []metrics.OpenFile{{Path: rows, Write: true}}) || p.Env["PYTHONUNBUFFERED"] != "1" || p.Env["REQUEST_TIMEOUT"] != "600" {
		t.Errorf("client %+v", p)
	}
	if len(s.Remote) != 0 {
		t.Errorf("peers on other hosts: %v", s.Remote)
	}
	for _, q := range s.Procs {
		if q.PID != server && q.PPID != 0 && process(s, q.PPID) == nil && q.PPID != os.Getpid() {
			t.Errorf("%d (%s) has no parent %d in the scan", q.PID, q.Comm, q.PPID)
		}
	}
}

// Below a root pid only its processes, sockets and files count.
func TestRootPID(t *testing.T) {
	port, other := strconv.Itoa(remotetest.FreePort(t)), strconv.Itoa(remotetest.FreePort(t))
	inside := actor(t, "server "+port, nil, "python3", "-m", "sglang.launch_server", "--port", port)
	w := watch(t, newLocalNode(t), Options{RootPID: inside})
	s, err := metrics.Decode[metrics.Scan](w.until("a scan", kind(metrics.KindScan)))
	if err != nil {
		t.Fatal(err)
	}
	if s.Total != 0 || len(s.Procs) != 0 {
		t.Errorf("below a process without children: %+v", s)
	}
	outside := actor(t, "server "+other, nil, "python3", "-m", "sglang.launch_server", "--port", other)
	// This process is above both and is the parent of the shells: they alone
	// are left out.
	w = watch(t, newLocalNode(t), Options{RootPID: os.Getpid()})
	w.until("both", decoded(metrics.KindScan, func(s metrics.Scan) bool {
		return process(s, inside) != nil && process(s, outside) != nil && process(s, os.Getpid()) == nil
	}))
}

func TestHTTP(t *testing.T) {
	port := strconv.Itoa(remotetest.FreePort(t))
	number, _ := strconv.Atoi(port)
	server := actor(t, "server "+port, nil, "python3", "-m", "sglang.launch_server", "--port", port, "--api-key", "open-sesame-123")
	for name, tc := range map[string]struct {
		node func(n *localNode)
		via  string
	}{
		"forward": {func(*localNode) {}, "forward"},
		"node":    {func(n *localNode) { n.noTCP = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newLocalNode(t)
			tc.node(n)
			w := watch(t, n, Options{},
				metrics.Want{Kind: metrics.WantHTTP, Addr: "127.0.0.1", Port: number, Path: "/server_info", KeyPID: server},
				metrics.Want{Kind: metrics.WantHTTP, Addr: "127.0.0.1", Port: 1, Path: "/health"})
			for _, want := range []struct {
				path   string
				status int
			}{{"/server_info", 200}, {"/health", 0}} {
				f := w.until(want.path, func(f metrics.Frame) bool { return f.Kind == metrics.KindHTTP && strings.HasSuffix(f.Name, want.path) })
				h, body, err := metrics.DecodeChunk[metrics.HTTPHeader](f.Data)
				if err != nil {
					t.Fatal(err)
				}
				if h.Status != want.status || h.Via == "" || tc.via != "" && h.Via != tc.via || tc.via == "" && h.Via == "forward" {
					t.Errorf("%s: %+v %q", want.path, h, body)
				}
				if want.status == 200 && string(body) != `{"path":"/server_info","api_key":"***","admin_api_key":"***"}`+"\n" {
					t.Errorf("body %q", body)
				}
				if want.status == 0 && !strings.Contains(h.Err, "refused") {
					t.Errorf("error %q", h.Err)
				}
			}
		})
	}
}

func TestHexAddr(t *testing.T) {
	for in, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000000000000000000001000000:1F40": "[::1]:8000",
		"0000000000000000FFFF00000100007F:1F40": "127.0.0.1:8000",
	} {
		a, port, ok := hexAddr(in)
		if got := netip.AddrPortFrom(a, uint16(port)).String(); !ok || got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for _, bad := range []string{"", "x", "0100007F", "0100007F:1F9", "01:1F90", "zz00007F:1F90"} {
		if _, _, ok := hexAddr(bad); ok {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a) b (c)) Z 7 8 9 0 -1 4194560 1 2 3 4 500 60 0 0 20 0 3 0 12345 1000 256 18446744073709551615"
	st, ok := parseStat(line)
	want := procStat{pid: 42, ppid: 7, pgid: 8, sid: 9, comm: "a) b (c)", state: "Z", threads: 3, start: 12345, cpu: 560, rss: 256, majflt: 3}
	if !ok || st != want {
		t.Errorf("got %+v", st)
	}
	for _, bad := range []string{"", "x (y) S 1 1 1", "1 (y S 1", "1 (y) S 1"} {
		if _, ok := parseStat(bad); ok {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// scanText is the answer of a node with that many processes, each with ten
// sockets.
func scanText(procs int) (table, fds, tcp string) {
	var a, b, c strings.Builder
	for i := 1; i <= procs; i++ {
		fmt.Fprintf(&a, "%d (python3 worker) S %d %d %d %d\n", i, i/2, i, i, 1000+i)
		fmt.Fprintf(&b, "@%d\n", i)
		for j := range 10 {
			fmt.Fprintf(&b, "s%d\n", i*10+j)
			fmt.Fprintf(&c, "01 0100007F:%04X 0100007F:1F40 %d\n", 1024+i%60000, i*10+j)
		}
	}
	return a.String(), b.String(), c.String()
}

func BenchmarkParseScan(b *testing.B) {
	table, fds, tcp := scanText(2000)
	b.SetBytes(int64(len(table) + len(fds) + len(tcp)))
	for b.Loop() {
		parseTable(table)
		parseFDs(fds)
		parseSockets(tcp)
	}
}

func FuzzNodeText(f *testing.F) {
	table, fds, tcp := scanText(2)
	f.Add(table, fds, tcp)
	f.Add("1 (x)) S 1 1 1 1\n", "@\ns\nw/a.jsonl\n", "0A 00000000:1F40 00000000:0000 7\n")
	f.Add("lrwx------ 1 0 0 64 Nov 29 21:17 /proc/1/cwd -> /a -> b", "Filesystem\n/dev/x y 10 1 9 10% /m n", "2:5 1 2 81a4 /x y")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, text := range []string{a, b, c} {
			tab := parseTable(text)
			for pid := range tab.rows {
				tab.descendants(pid)
				tab.ancestors(pid)
			}
			parseFDs(text)
			parseSockets(text)
			parseLinks(text)
			parseInfo(text)
			parseDisks([][]byte{[]byte(text)}, []string{"/"})
			if all := parseStats(text, []string{"/x"}); len(all) != 1 {
				t.Errorf("%d stats for one path", len(all))
			}
			newKernelLines(text, 0)
			splitArgv([]byte(text))
			chosenEnv(text)
			cgroupOf(text)
		}
	})
}
