package findings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runvigil/runvigil/metrics"
)

var wrongServer = Detector{
	ID:    "wrong-server",
	Means: "The port answers for another process than the one whose log is read. Its figures and this log do not belong together.",
	Needs: "the node's processes and listening sockets",
	When:  "A process that is no part of the server's tree listens on its port while the server itself does not.",
	Do:    "Find out which server the client talks to; end the one that is not wanted.",
	For:   20 * time.Second,
	Clear: 10 * time.Second,
	Check: func(in *Input, out *Output) {
		trees := in.serverTrees()
		for _, v := range in.working() {
			if v.PID == 0 || v.Port == 0 {
				continue
			}
			var foreign *metrics.Proc
			own := false
			for i := range in.Snap.Procs {
				p := &in.Snap.Procs[i]
				if !slices.ContainsFunc(p.Listen, func(l metrics.ListenAddr) bool { return l.Port == v.Port }) {
					continue
				}
				if slices.Contains(v.Tree, p.PID) {
					own = true
				} else if trees[p.PID] == "" && !slices.Contains(forwarders, p.Comm) {
					foreign = p
				}
			}
			if own || foreign == nil {
				continue
			}
			out.Raise(Condition{
				Subject: v.ID, Severity: metrics.SeverityCritical, Log: metrics.LogPlace{Path: v.Log.Path},
				Title: fmt.Sprintf("port %d belongs to process %d (%s), not to the server of this log", v.Port, foreign.PID, foreign.Comm),
				Why:   "the client may talk to another server, or this one cannot open its port",
				Evidence: []metrics.Evidence{
					{Text: fmt.Sprintf("%d listens on %d: %s", foreign.PID, v.Port, metrics.Cut(strings.Join(foreign.Argv, " "), 120)), Source: "sockets", At: in.now()},
					{Text: fmt.Sprintf("server %d has that port in its command line and does not listen", v.PID), Source: "processes", At: in.now()},
				},
				Advice: fmt.Sprintf("end process %d if it is a leftover, or start with another --port", foreign.PID),
			})
		}
	},
}

// forwarders hold a port on behalf of a container, whose own sockets are not
// among those of the node.
var forwarders = []string{"docker-proxy", "rootlessport", "rootlesskit", "slirp4netns", "pasta", "gvproxy", "kube-proxy"}

var twoServers = Detector{
	ID:    "two-servers",
	Means: "Two servers run that want the same port or the same GPU memory. One of them will fail, or both are slow.",
	Needs: "the node's processes and their environment",
	When:  "Two living servers have the same port; or they see a common GPU and their memory fractions there add up to more than 1.",
	Do:    "Stop one of them, or give them other ports and GPUs (CUDA_VISIBLE_DEVICES).",
	For:   15 * time.Second,
	Clear: 10 * time.Second,
	Check: func(in *Input, out *Output) {
		vs := in.working()
		for i, a := range vs {
			for _, b := range vs[i+1:] {
				if a.PID == 0 || b.PID == 0 {
					continue
				}
				c := Condition{
					Subject: a.ID, Severity: metrics.SeverityCritical, Since: latest(a.Started, b.Started),
					Evidence: []metrics.Evidence{
						{Text: fmt.Sprintf("%s %d since %s on port %d", name(a), a.PID, in.clock(a.Started), a.Port), Source: "processes", At: in.now()},
						{Text: fmt.Sprintf("%s %d since %s on port %d", name(b), b.PID, in.clock(b.Started), b.Port), Source: "processes", At: in.now()},
					},
					Advice: fmt.Sprintf("stop one of them (pids %d and %d), or give them other ports and GPUs", a.PID, b.PID),
				}
				fa, fb := fractionOf(a), fractionOf(b)
				gpu, shared := in.sharedGPU(a, b)
				switch {
				case a.Port != 0 && a.Port == b.Port:
					c.Title = fmt.Sprintf("two servers on port %d: %d and %d", a.Port, a.PID, b.PID)
					c.Why = "only one of them can listen there"
				case shared && fa+fb > 1:
					c.Title = fmt.Sprintf("two servers want GPU %s: %d takes %.2f of it and %d takes %.2f", gpu, a.PID, fa, b.PID, fb)
					c.Why = "their shares of the GPU memory add up to more than there is"
				default:
					continue
				}
				out.Raise(c)
			}
		}
	},
}

// fractionOf is the share of GPU memory that a launch claims, 0 unknown.
func fractionOf(v *metrics.Server) float64 {
	var f float64
	if _, err := fmt.Sscan(setting(v, tuningOf(v).fraction), &f); err != nil {
		return 0
	}
	return f
}

// sharedGPU names a GPU that both servers see; without CUDA_VISIBLE_DEVICES a
// server sees the first as many as it has ranks.
func (in *Input) sharedGPU(a, b *metrics.Server) (string, bool) {
	mine := in.devices(a)
	for _, d := range in.devices(b) {
		if slices.Contains(mine, d) {
			return d, true
		}
	}
	return "", false
}

func (in *Input) devices(v *metrics.Server) []string {
	if p := in.process(v.PID); p != nil {
		if s := p.Env["CUDA_VISIBLE_DEVICES"]; s != "" {
			return strings.Split(s, ",")
		}
	}
	first, _ := strconv.Atoi(flagValue(v.Argv, "--base-gpu-id"))
	var out []string
	for i := range max(v.TP, 1) * max(v.PP, 1) {
		out = append(out, fmt.Sprint(first+i))
	}
	return out
}
