package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// keeperScript runs ssh and outlives this program just long enough to end it.
// Its arguments are the private folder and the ssh command line. Its standard
// input is a pipe that only this program holds open, so end of file means that
// this program is gone, however it ended. It works the same on Linux and
// darwin, where a process cannot ask to die with its parent. The watcher in
// brackets starts before any trap is set, so that it has none; all that can
// outlive ssh is its sleep of 2 s.
const keeperScript = `d=$1; shift
exec 3<&0 </dev/null
"$@" 3<&- &
p=$!
(
	read -r x <&3
	kill "$p" 2>/dev/null
	sleep 2
	rm -f "$d"/*
	rmdir "$d"
	kill -9 0
) >/dev/null 2>&1 &
w=$!
trap 'kill "$p" 2>/dev/null' HUP INT TERM
exec 3<&-
while :; do
	wait "$p"
	rc=$?
	kill -0 "$p" 2>/dev/null || break
done
kill "$w" 2>/dev/null
rm -f "$d"/*
rmdir "$d" 2>/dev/null
exit "$rc"
`

// sshVersion is "major.minor" of an OpenSSH client as one number: 9.2 is 902.
type sshVersion int

const (
	versionProxyMode  sshVersion = 704 // multiplexing in proxy mode
	versionAskpass    sshVersion = 804 // SSH_ASKPASS_REQUIRE
	versionForkOption sshVersion = 807 // ForkAfterAuthentication as an option
)

var opensshRE = regexp.MustCompile(`OpenSSH_(?:for_Windows_)?(\d+)\.(\d+)`)

func clientVersion(ctx context.Context, path string) (sshVersion, error) {
	out, err := exec.CommandContext(ctx, path, "-V").CombinedOutput()
	m := opensshRE.FindSubmatch(out)
	if m == nil {
		if err == nil {
			err = errors.New("another program?")
		}
		return 0, fmt.Errorf("%s -V does not name an OpenSSH version (%q): %w; use --dial native", path, strings.TrimSpace(string(out)), err)
	}
	major, _ := strconv.Atoi(string(m[1]))
	minor, _ := strconv.Atoi(string(m[2]))
	v := sshVersion(major*100 + minor)
	if v < versionProxyMode {
		return v, fmt.Errorf("%s is OpenSSH %d.%d, and control sockets for other programs need 7.4: use --dial native", path, major, minor)
	}
	return v, nil
}

// sshArgs is the command line of the master for t. Every option that the
// user's configuration could set against its purpose is set here.
func sshArgs(t Target, o Options, v sshVersion, socket string) []string {
	args := []string{"-M", "-N", "-T", "-v", "-a", "-x", "-S", socket}
	if o.SSHConfig != "" {
		args = append(args, "-F", o.SSHConfig)
	}
	options := []string{
		"ControlPersist=no",
		"ClearAllForwardings=yes",
		"RemoteCommand=none",
		"PermitLocalCommand=no",
		"Tunnel=no",
		"ServerAliveInterval=5",
		"ServerAliveCountMax=" + strconv.Itoa(missedKeepAlives),
		"ConnectTimeout=" + strconv.Itoa(max(1, int(o.timeout()/time.Second))),
	}
	if v >= versionForkOption {
		options = append(options, "ForkAfterAuthentication=no")
	}
	for _, opt := range options {
		args = append(args, "-o", opt)
	}
	if o.Identity != "" {
		args = append(args, "-i", o.Identity)
	}
	if t.Port != 0 {
		args = append(args, "-p", strconv.Itoa(t.Port))
	}
	if t.User != "" {
		args = append(args, "-l", t.User)
	}
	return append(args, "--", t.Host)
}

// sshChild is a running master with everything that must go when it goes.
type sshChild struct {
	cmd    *exec.Cmd
	hold   *os.File // the keeper lives while this is open
	folder *privateFolder
	ask    *askpassServer
	log    *sshLog
	exited chan struct{}
	once   sync.Once
}

func startSSH(path string, t Target, o Options, v sshVersion, ask func(context.Context, askpassQuestion) (string, bool)) (*sshChild, error) {
	folder, err := newPrivateFolder()
	if err != nil {
		return nil, err
	}
	c := &sshChild{folder: folder, log: &sshLog{}, exited: make(chan struct{})}
	if c.ask, err = serveAskpass(folder.join("a"), ask); err != nil {
		_ = folder.remove()
		return nil, err
	}
	if err := c.start(path, sshArgs(t, o, v, folder.join("m")), v); err != nil {
		c.ask.close()
		_ = folder.remove()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return c, nil
}

func (c *sshChild) start(path string, args []string, v sshVersion) error {
	env, err := askpassEnviron(c.folder.join("a"), v)
	if err != nil {
		return err
	}
	argv := append([]string{"-c", keeperScript, "runvigil-ssh", c.folder.path, path}, args...)
	c.cmd = exec.Command("/bin/sh", argv...)
	c.cmd.Env = env
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	words, errW, err := os.Pipe()
	if err != nil {
		closeFiles([]*os.File{in, hold})
		return err
	}
	c.cmd.Stdin, c.cmd.Stderr = in, errW
	err = c.cmd.Start()
	closeFiles([]*os.File{in, errW})
	if err != nil {
		closeFiles([]*os.File{hold, words})
		return err
	}
	c.hold = hold
	go func() {
		c.log.read(words)
		words.Close()
		_ = c.cmd.Wait()
		close(c.exited)
	}()
	return nil
}

// askpassEnviron makes ssh ask this program. Before 8.4 it asks a helper only
// where it has no terminal, which holds in a session of its own, and where
// DISPLAY is set.
func askpassEnviron(socket string, v sshVersion) ([]string, error) {
	env := os.Environ()
	if !askpassHooked.Load() {
		return append(env, "SSH_ASKPASS=/bin/false", "SSH_ASKPASS_REQUIRE=force"), nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to answer ssh with: %w", err)
	}
	env = append(env, "SSH_ASKPASS="+self, "SSH_ASKPASS_REQUIRE=force", askpassEnv+"="+socket)
	if v < versionAskpass && os.Getenv("DISPLAY") == "" {
		env = append(env, "DISPLAY=:0")
	}
	return env, nil
}

// killGrace is how long ssh may take to end on request.
const killGrace = time.Second

// stop ends ssh and removes its folder. It returns when both are done.
func (c *sshChild) stop() {
	c.once.Do(func() {
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		c.hold.Close()
		select {
		case <-c.exited:
		case <-time.After(killGrace):
			// The keeper was not waited for yet, so its number is its own.
			_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
			<-c.exited
		}
		c.ask.close()
		_ = c.folder.remove()
	})
}

func dialOpenSSH(ctx context.Context, t Target, o Options) (*Conn, error) {
	path := o.sshPath()
	if path == "" {
		return nil, errors.New("no ssh client in PATH: install one, or use --dial native")
	}
	v, err := clientVersion(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnusableSSH, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := newLoginClock(o.timeout(), func() { cancel(errLoginTimeout) })
	defer clock.stop()
	a := &asker{prompter: o.Prompter, target: t, pause: clock.pause}

	child, err := startSSH(path, t, o, v, answerFor(a, func(err error) { cancel(err) }))
	if err != nil {
		return nil, err
	}
	nc, err := child.attach(ctx)
	if err != nil {
		child.stop()
		return nil, loginError(err, a, child.log, t, o)
	}
	child.ask.close()
	conn, chans, reqs, err := ssh.NewControlClientConn(nc)
	if err != nil {
		nc.Close()
		child.stop()
		return nil, fmt.Errorf("speak to ssh over its control socket: %w", err)
	}
	tr := &sshTransport{client: ssh.NewClient(conn, chans, reqs), hangUp: func() error { child.stop(); return nil }}
	c := newConn(tr, child.info(t, a, clock.spent()))
	go func() {
		_ = tr.client.Wait()
		c.end(child.death())
	}()
	return c, nil
}

// attach waits until ssh has logged in: the control socket appears then.
func (c *sshChild) attach(ctx context.Context) (net.Conn, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if nc, err := net.Dial("unix", c.folder.join("m")); err == nil {
			return nc, nil
		}
		select {
		case <-c.exited:
			return nil, errSSHEnded
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

var (
	errUnusableSSH  = errors.New("this ssh client cannot be used")
	errSSHEnded     = errors.New("ssh ended")
	errLoginTimeout = errors.New("the login took too long")
)

// loginError chooses the error that tells most: what a person must do, what
// ssh said, or that time ran out.
func loginError(err error, a *asker, log *sshLog, t Target, o Options) error {
	said := log.failure(t)
	var tried error
	if a.unanswered != nil && a.unanswered.Kind != PromptHostKey {
		tried = log.refusal(t, nil)
	}
	var host *HostKeyError
	if errors.As(said, &host) && (host.Changed || host.Revoked) {
		return said
	}
	switch {
	case errors.Is(err, ErrNoPrompts):
		return a.needed(tried)
	case errors.Is(err, ErrCanceled):
		return fmt.Errorf("login to %s: %w", t, err)
	case errors.Is(err, errSSHEnded):
		var auth *AuthError
		if errors.As(said, &auth) && a.unanswered != nil {
			return a.needed(said)
		}
		return said
	case errors.Is(err, errLoginTimeout):
		return log.late(t, o.timeout())
	default:
		return err
	}
}

func (c *sshChild) info(t Target, a *asker, spent time.Duration) Info {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	i := Info{
		Dialer:        DialerOpenSSH,
		User:          c.log.user,
		Host:          c.log.host,
		Port:          c.log.port,
		ServerVersion: c.log.serverVersion,
		Auth:          c.log.auth,
		Prompted:      a.prompted,
		HandshakeTime: spent,
	}
	if i.Host == "" {
		i.Host, i.Port = t.Host, t.Port
	}
	if i.User == "" {
		i.User = t.User
		if u, err := user.Current(); err == nil && i.User == "" {
			i.User = u.Username
		}
	}
	return i
}

// death says why the master is gone, in ssh's own words where it has any.
func (c *sshChild) death() error {
	select {
	case <-c.exited:
	case <-time.After(killGrace):
		return errors.New("the control socket of ssh was closed")
	}
	if s := c.log.lastWords(); s != "" {
		return fmt.Errorf("ssh ended: %s", s)
	}
	return fmt.Errorf("ssh ended (%s): %w", c.cmd.ProcessState, io.EOF)
}
