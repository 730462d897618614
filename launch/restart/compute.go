package restart

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/launch"
	"github.com/runvigil/runvigil/metrics"
)

// defaultPorts are what the engines open where no --port is given.
var defaultPorts = map[string]int{"sglang": 30000, "vllm": 8000}

// New computes the plan. It is pure: all that it knows is in.
func New(in Input) Plan {
	o := in.Options
	if o.Client == "" {
		o.Client = ClientKeep
	}
	if o.TermWait == 0 {
		o.TermWait = DefaultTermWait
	}
	o.Abort = o.Abort && o.Client != ClientKeep
	old := in.Seen.Launch
	p := Plan{ID: in.ID, Node: in.Node, Op: o.Op, Options: o, Old: old.Masked()}
	p.Identity = Identity{BootID: old.BootID, PID: old.PID, Start: old.Start}
	p.ArgvSum = in.Seen.ArgvSum
	p.oldPort = portOf(old, in.Server)
	switch o.Op {
	case EndOne:
		p.Identity, p.ArgvSum = in.EndPID, ""
		p.Stops = []string{fmt.Sprintf("process %d is ended: SIGTERM, and SIGKILL after %s", p.Identity.PID, o.TermWait)}
		p.refuse(in)
		return p
	case Start:
		p.Identity = Identity{BootID: old.BootID}
		p.saved, p.ArgvSum = in.Seen.Saved, ""
	case Restart, Stop:
		p.stops(in)
	}
	if o.Op != Stop {
		p.takeLaunch(in)
		p.room(in)
	}
	p.refuse(in)
	return p
}

// portOf is the port that a launch opens, 0 unknown. The one that a running
// server was seen to open wins.
func portOf(l launch.Launch, s *metrics.Server) int {
	if s != nil && s.Port > 0 && s.PID == l.PID {
		return s.Port
	}
	if v, ok := l.Effective()["port"]; ok {
		if n, err := strconv.Atoi(v); err == nil && n > 0 && n < 1<<16 {
			return n
		}
	}
	return defaultPorts[l.Engine]
}

func (p *Plan) takeLaunch(in Input) {
	d := in.Draft
	if d == nil {
		d = launch.NewDraft(in.Seen.Launch)
	}
	var missing, gone []string
	p.New = d.Launch().Masked()
	p.Diff = d.Diff()
	p.Command = p.New.Argv
	p.words, missing = d.Words()
	p.setEnv, p.unsetEnv, gone = d.EnvChanges()
	if p.Op == Start && in.Seen.Saved == "" {
		p.setEnv, gone = given(d.Launch().Env)
	}
	p.NotReproduced = p.Old.NotReproduced()
	p.Port = portOf(p.New, nil)
	if _, changed := p.changed("port"); !changed && p.oldPort > 0 {
		p.Port = p.oldPort
	}
	switch p.Old.LogHow {
	case launch.LogFile, launch.LogTee:
		p.Log = p.Old.Log
	}
	for _, v := range p.Old.Env {
		if !shellName(v.Name) && !launch.SessionVar(v.Name) {
			p.NotReproduced = append(p.NotReproduced, fmt.Sprintf("environment variable %q: no shell can export that name", metrics.Clean(v.Name, 80)))
		}
	}
	for _, m := range missing {
		p.Missing = append(p.Missing, launch.Edit{Kind: launch.SetFlag, Name: m})
		p.Refusals = append(p.Refusals, Refusal{RefusedSecret, "a secret is nowhere any more: the value of --" + m, "give it when it is asked for, or with --set NAME=VALUE"})
	}
	for _, m := range gone {
		p.Missing = append(p.Missing, launch.Edit{Kind: launch.SetEnv, Name: m})
		p.Refusals = append(p.Refusals, Refusal{RefusedSecret, "a secret is nowhere any more: the value of " + m, "give it when it is asked for, or with --env NAME=VALUE"})
	}
	for _, pr := range in.Problems {
		if pr.Level >= metrics.SeverityCritical {
			p.Refusals = append(p.Refusals, Refusal{RefusedLaunch, pr.Text, "correct the flag"})
		} else {
			p.Warnings = append(p.Warnings, pr.Text)
		}
	}
	for _, b := range in.Broken {
		switch {
		case !b.Guard.Overridable:
			p.Refusals = append(p.Refusals, Refusal{RefusedGuard, fmt.Sprintf("--%s: %s", b.Flag, b.Reason), "the guard cannot be overridden; ask the owner of the data"})
		case strings.TrimSpace(p.Options.Override) == "":
			p.Refusals = append(p.Refusals, Refusal{RefusedGuard, fmt.Sprintf("--%s: %s", b.Flag, b.Reason), "the guard may be overridden with a reason: --override WHY"})
		default:
			p.Warnings = append(p.Warnings, fmt.Sprintf("guard on --%s is overridden (%s): %s", b.Flag, metrics.Clean(p.Options.Override, 200), b.Reason))
		}
	}
	if p.Options.Client == ClientRestart {
		p.client(in)
	}
}

// given is the environment of a command line or script: nothing on the node was
// saved that holds it.
func given(env []launch.Var) (set []launch.Var, missing []string) {
	for _, v := range env {
		if strings.Contains(v.Value, metrics.Masked) {
			missing = append(missing, v.Name)
		} else {
			set = append(set, v)
		}
	}
	return set, missing
}

func (p *Plan) changed(name string) (launch.Change, bool) {
	i := slices.IndexFunc(p.Diff, func(c launch.Change) bool { return !c.Env && c.Flag == name })
	if i < 0 {
		return launch.Change{}, false
	}
	return p.Diff[i], true
}

func shellName(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// stops says what ends with the server and what is lost with it.
func (p *Plan) stops(in Input) {
	s := in.Server
	if s == nil {
		p.Stops = append(p.Stops, fmt.Sprintf("server: process %d and all below it", p.Identity.PID))
		return
	}
	p.Tree = slices.Clone(s.Tree)
	p.InFlight = s.InFlight
	what := fmt.Sprintf("server: process %d", s.PID)
	if n := len(s.Tree) - 1; n > 0 {
		what += fmt.Sprintf(" and the %d of its tree", n)
	}
	p.Stops = append(p.Stops, what)
	for _, c := range in.Snap.Clients {
		if c.State == "gone" || c.State == "zombie" || !slices.Contains(c.Ports, s.Port) && !(c.PID > 0 && len(c.Ports) == 0 && len(c.Datasets) > 0) {
			continue
		}
		name := c.Host
		if c.PID > 0 {
			name = metrics.Clean(strings.Join(metrics.MaskArgv(c.Argv), " "), 120)
		}
		p.Clients = append(p.Clients, ClientProcess{
			Identity: Identity{BootID: p.Identity.BootID, PID: c.PID, Start: c.Start}, Name: name, Datasets: c.Datasets,
		})
	}
	p.loss(s)
}

func (p *Plan) loss(s *metrics.Server) {
	o := p.Options
	inFlight := "the requests in flight (their number is unknown)"
	if s.InFlight.Known {
		inFlight = fmt.Sprintf("%s requests in flight", metrics.Count(s.InFlight.V))
		if s.Running.Known && s.Queued.Known {
			inFlight += fmt.Sprintf(" (%s running, %s queued)", metrics.Count(s.Running.V), metrics.Count(s.Queued.V))
		}
	}
	switch {
	case s.InFlight.Known && s.InFlight.V == 0:
		p.Stops = append(p.Stops, "no request is in flight")
	case o.Drain > 0:
		p.Stops = append(p.Stops, fmt.Sprintf("%s: those that have not ended after %s are lost", inFlight, o.Drain))
	default:
		p.Stops = append(p.Stops, inFlight+": lost, as far as they do not end while the server shuts down")
	}
	for _, l := range p.ClientLosses() {
		p.Stops = append(p.Stops, l.String())
	}
	if o.Drain > 0 && o.Client == ClientKeep && len(p.Clients) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the client stays and sends new requests: the drain will last its whole %s", o.Drain))
	}
}

// ClientLoss is what becomes of a client and what that loses.
type ClientLoss struct {
	Who, What string
}

func (l ClientLoss) String() string { return l.Who + " " + l.What }

// ClientLosses tells of each client of the server.
func (p Plan) ClientLosses() []ClientLoss {
	o, out := p.Options, []ClientLoss(nil)
	for _, c := range p.Clients {
		l := ClientLoss{Who: "client " + c.Name}
		if c.PID > 0 {
			l.Who = fmt.Sprintf("client %d (%s)", c.PID, c.Name)
		}
		switch {
		case o.Client == ClientKeep:
			l.What = "stays and sees errors until the new server answers; one that gives up after some retries skips rows"
		case c.PID == 0:
			l.What = "is on another machine: it cannot be stopped from here and sees errors"
		case o.Client == ClientStop:
			l.What = "is stopped before the server, with what it has not saved"
		default:
			l.What = "is stopped before the server, with what it has not saved, and started again behind the new one"
		}
		out = append(out, l)
	}
	return out
}

// client finds the command with which the client is started again.
func (p *Plan) client(in Input) {
	cfg := in.Snap.Config
	if cfg.ClientCommand != "" {
		if !cfg.ClientResumable {
			p.Refusals = append(p.Refusals, Refusal{RefusedClient, "the configured client command is not marked resumable: started again it might begin anew",
				"set client_resumable = true if that loses nothing, or choose --client keep or stop"})
			return
		}
		p.clientCmd, p.ClientCommand = cfg.ClientCommand, metrics.Mask(metrics.Clean(cfg.ClientCommand, 400))
	}
	var live *metrics.Client
	for i := range in.Snap.Clients {
		c := &in.Snap.Clients[i]
		if c.PID > 0 && slices.ContainsFunc(p.Clients, func(x ClientProcess) bool { return x.PID == c.PID && x.Start == c.Start }) {
			live = c
			break
		}
	}
	if live != nil {
		p.clientLog = live.Log.Path
	}
	if p.clientCmd != "" {
		return
	}
	if live == nil || len(live.Argv) == 0 {
		p.Refusals = append(p.Refusals, Refusal{RefusedClient, "no client runs whose command could be read back, and none is configured", "set client_command in the configuration, or choose --client keep or stop"})
		return
	}
	if flag := truncates(live.Argv); flag != "" {
		p.Refusals = append(p.Refusals, Refusal{RefusedClient, fmt.Sprintf("the client's command has %s, which would begin its dataset anew", flag), "choose --client keep or stop, and start it by hand"})
		return
	}
	if live.Cwd == "" {
		p.Refusals = append(p.Refusals, Refusal{RefusedClient, "the client's directory could not be read", "set client_command in the configuration"})
		return
	}
	words := make([]launch.Word, len(live.Argv))
	for i := range words {
		words[i].From = i
	}
	text, err := become(launch.Launch{Dir: live.Cwd, Umask: -1}, words, nil, nil)
	if err != nil {
		p.Refusals = append(p.Refusals, Refusal{RefusedClient, err.Error(), "set client_command in the configuration"})
		return
	}
	p.clientCmd, p.clientSaved = string(text), true
	p.ClientCommand = metrics.Clean(strings.Join(metrics.MaskArgv(live.Argv), " "), 400)
}

// truncates names an argument that makes a client begin its dataset anew.
func truncates(argv []string) string {
	for i, a := range argv {
		name := strings.ReplaceAll(strings.TrimLeft(a, "-"), "_", "-")
		name, value, _ := strings.Cut(name, "=")
		if !strings.HasPrefix(a, "-") {
			continue
		}
		switch strings.ToLower(name) {
		case "overwrite", "force-overwrite", "overwrite-output", "overwrite-output-dir", "truncate", "no-resume", "fresh", "from-scratch", "clean", "reset", "restart", "start-over":
			if !slices.Contains([]string{"false", "0", "no"}, strings.ToLower(value)) {
				return a
			}
		case "mode", "write-mode", "open-mode", "file-mode":
			if value == "" && i+1 < len(argv) {
				value = argv[i+1]
			}
			if value == "w" || value == "wb" || value == "overwrite" {
				return a
			}
		case "resume":
			if slices.Contains([]string{"false", "0", "no"}, strings.ToLower(value)) {
				return a
			}
		}
	}
	return ""
}

// refuse adds what stands against acting at all.
func (p *Plan) refuse(in Input) {
	add := func(code RefusalCode, way, reason string, a ...any) {
		p.Refusals = append(p.Refusals, Refusal{code, fmt.Sprintf(reason, a...), way})
	}
	l, seen := in.Seen.Launch, in.Seen
	if seen.Busy != nil {
		p.Refusals = append(p.Refusals, busy(*seen.Busy, p.Node))
	}
	if p.Op != Stop && p.Op != EndOne && seen.KillsUserProcesses {
		add(RefusedSession, "loginctl enable-linger with KillUserProcesses=no, or log in as root", "the node's session manager (KillUserProcesses) would end the new server when this login ends")
	}
	if p.Op == Start {
		if in.Server != nil {
			add(RefusedRunning, "restart it instead: runvigil restart "+p.Node, "a server runs already: process %d", in.Server.PID)
		}
		return
	}
	way := "use the command that started it"
	if cfg := in.Snap; cfg != nil && cfg.Config.ServerCommand != "" {
		way = "its own command, from the configuration: " + metrics.Mask(metrics.Clean(cfg.Config.ServerCommand, 300))
	}
	switch {
	case p.Identity.PID <= 0:
		add(RefusedGone, "start one: runvigil start "+p.Node, "no server runs on the node")
		return
	case p.Identity.PID == 1 || seen.Init:
		add(RefusedInit, "restart the container with its own tool: "+way, "the server is pid 1: with it the container ends, and this login too")
	}
	if p.Op == EndOne {
		return
	}
	if l.Unit != "" {
		add(RefusedSupervised, wayOr(way, in, "systemctl restart "+l.Unit), "systemd's unit %s supervises it and would start it again beside ours", l.Unit)
	}
	if name := supervisor(l.Parent); name != "" {
		add(RefusedSupervised, wayOr(way, in, name+"'s own restart"), "%s supervises it (parent process %d) and would start it again beside ours", name, l.PPID)
	} else if l.PPID > 1 && runsScript(l.Parent) {
		p.Warnings = append(p.Warnings, fmt.Sprintf("its parent is `%s` (process %d): should that start it again, the script leaves it that one and ends", l.Parent, l.PPID))
	}
	if l.Container != "" {
		add(RefusedContainer, "log in to the container, or restart it with its own tool: "+way, "it runs inside the container %s, a server started from this login would not", l.Container)
	}
	if l.SlurmJob != "" {
		add(RefusedSlurm, "restart it inside the job: srun --jobid="+l.SlurmJob+" --overlap, or submit it again", "it belongs to Slurm job %s; a server started here would not, and would end with this login", l.SlurmJob)
	}
	if l.Here.Known && l.UID >= 0 && l.Here.UID != 0 && l.UID != l.Here.UID {
		add(RefusedOther, "log in as "+orUser(l.User, l.UID)+", or as root", "it is %s's process, this login is %s", orUser(l.User, l.UID), orUser(l.Here.User, l.Here.UID))
	} else if seen.Denied != "" {
		add(RefusedPermission, "log in as its user, or as root", "%s", seen.Denied)
	}
	if p.Op == Restart && !l.Known() {
		add(RefusedLaunch, "stop it, then start with --command 'LINE'", "its command could not be read back")
	}
}

func wayOr(way string, in Input, other string) string {
	if in.Snap != nil && in.Snap.Config.ServerCommand != "" {
		return way
	}
	return other
}

func orUser(name string, uid int) string {
	if name != "" {
		return name
	}
	return fmt.Sprintf("uid %d", uid)
}

func busy(o Owner, node string) Refusal {
	return Refusal{
		Code:   RefusedBusy,
		Reason: fmt.Sprintf("a restart of %s is under way since %s (%s, process %d)", orUser(o.User, -1), o.Since.UTC().Format("15:04:05 UTC"), o.ID, o.PID),
		Way:    "follow it: R on the screen, or runvigil restart " + node + " --follow",
	}
}

// supervisor names the program that would start a server again, from the command
// of its parent.
func supervisor(parent string) string {
	words := strings.Fields(parent)
	for i, w := range words {
		if i > 2 {
			break
		}
		switch base := path.Base(w); base {
		case "supervisord", "runsv", "s6-supervise", "circusd", "monit", "pm2", "runit", "dumb-init-respawn", "kubelet":
			return base
		}
	}
	return ""
}

// runsScript tells whether a command is an interpreter with a program to run: such
// a parent may start its child again. Our own wrapper does not.
func runsScript(command string) bool {
	words := strings.Fields(command)
	if len(words) < 2 || strings.Contains(command, "/restart.sh wrap ") {
		return false
	}
	switch strings.TrimRight(path.Base(words[0]), "0123456789.") {
	case "sh", "bash", "dash", "ash", "zsh", "ksh", "busybox", "python", "perl", "ruby", "node":
		return true
	}
	return false
}
