package simnode

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// holdEnv makes the test binary start a node and wait to be killed.
const holdEnv = "SIMNODE_TEST_HOLD"

func TestMain(m *testing.M) {
	if handled, code := Main(os.Args); handled {
		os.Exit(code)
	}
	if scenario := os.Getenv(holdEnv); scenario != "" {
		n, err := Start(context.Background(), Options{Scenario: scenario})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(n.RootPID, n.Dir)
		select {}
	}
	// The tests wait far more than they work.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// waitFor polls until the condition holds.
func waitFor(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, limit)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// quickStart makes a server that the tests launch start in three seconds.
const quickStart = 0.008

func startNode(t *testing.T, scenario string) (*Node, *ssh.Client) {
	t.Helper()
	t.Parallel()
	n, err := Start(context.Background(), Options{Scenario: scenario, StartScale: quickStart})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := ssh.Dial("tcp", n.Addr, &ssh.ClientConfig{
		User: n.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(n.Signer)},
		HostKeyCallback: ssh.FixedHostKey(n.HostKey), Timeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return n, client
}

func run(t *testing.T, client *ssh.Client, command string) string {
	t.Helper()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	// What hangs must fail here and not with the whole test binary.
	limit := time.AfterFunc(20*time.Second, func() { _ = session.Close() })
	defer limit.Stop()
	out, err := session.CombinedOutput(command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// titles reads the command lines below the node's root, NULs as spaces.
func titles(root int) map[int]string {
	found := make(map[int]string)
	for _, pid := range descendants(root) {
		cmdline, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if err == nil && len(cmdline) > 0 {
			found[pid] = strings.TrimRight(strings.ReplaceAll(string(cmdline), "\x00", " "), " ")
		}
	}
	return found
}

func find(root int, part string) int {
	for pid, title := range titles(root) {
		if strings.Contains(title, part) {
			return pid
		}
	}
	return 0
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	return info.Size()
}

// growing is the rows file that changed last.
func growing(t *testing.T, n *Node) string {
	t.Helper()
	newest, at := "", time.Time{}
	_ = filepath.WalkDir(n.Data, func(path string, _ os.DirEntry, _ error) error {
		if info, err := os.Stat(path); err == nil && strings.HasSuffix(path, ".jsonl") && info.ModTime().After(at) {
			newest, at = path, info.ModTime()
		}
		return nil
	})
	if newest == "" {
		t.Fatal("no rows file")
	}
	return newest
}

func get(client *ssh.Client, port int, path string) (int, []byte, error) {
	transport := &http.Transport{DisableKeepAlives: true,
		DialContext: func(_ context.Context, network, addr string) (net.Conn, error) { return client.Dial(network, addr) }}
	answer, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, body, err
}
