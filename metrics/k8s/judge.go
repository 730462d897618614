package k8s

import (
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// Faults are what the output says went wrong, the cause marked as primary.
func (r *Report) Faults() []Fault { return r.faults }

// judge names the faults: events tell why, exit codes tell how.
func (p *parser) judge() {
	r := p.r
	add := func(class metrics.Cause, subject, detail string, line int64) {
		for _, f := range r.faults {
			if f.Class == class && f.Subject == subject {
				return
			}
		}
		if len(r.faults) < maxItems {
			r.faults = append(r.faults, Fault{Class: class, Subject: subject, Detail: metrics.Cut(detail, maxText), Line: line})
		}
	}
	for _, e := range r.Events {
		if class := eventClass(e); class != "" {
			add(class, "", e.Reason+": "+e.Message, e.Line)
		}
	}
	strong := len(r.faults)
	for i := range r.Pods {
		pod := &r.Pods[i]
		switch pod.Reason {
		case "Evicted":
			class := metrics.CauseHostNoMemory
			if strings.Contains(pod.Message, "storage") {
				class = metrics.CauseDiskFull
			}
			add(class, pod.Name, "evicted: "+pod.Message, 0)
			strong = len(r.faults)
		}
		for j := range pod.Containers {
			c := &pod.Containers[j]
			for _, run := range []*Run{&c.Last, &c.Now} {
				if class, detail := runClass(run); class != "" {
					add(class, c.Name, detail, p.lines[run])
				}
			}
		}
		switch pod.Status {
		case "OOMKilled":
			add(metrics.CauseHostOOMKilled, pod.Name, "status OOMKilled", 0)
		case "CrashLoopBackOff", "Error":
			if len(r.faults) == 0 {
				detail := "status " + pod.Status
				if pod.Restarts > 0 {
					detail += " after " + strconv.Itoa(pod.Restarts) + " restarts"
				}
				add(metrics.CauseStartupFailed, pod.Name, detail+"; the reason is in the pod's events or in the log of the container before", 0)
			}
		}
	}
	if len(r.faults) == 0 {
		return
	}
	// A probe that kills explains an exit code; an OOM kill explains a probe that failed.
	primary := 0
	for i, f := range r.faults {
		if f.Class == metrics.CauseHostOOMKilled {
			primary = i
			break
		}
		if i >= strong && f.Class == metrics.CauseKilledUnknown && strong > 0 {
			break
		}
	}
	r.faults[primary].Primary = true
}

// eventClass is the fault that a pod's event tells.
func eventClass(e Event) metrics.Cause {
	low := strings.ToLower(e.Message)
	switch {
	case e.Reason == "Killing" && strings.Contains(low, "probe"):
		return metrics.CauseProbeKilled
	case e.Reason == "Unhealthy" && strings.Contains(low, "startup probe"):
		return metrics.CauseProbeKilled
	case e.Reason == "OOMKilling", strings.Contains(low, "oom killed"), strings.Contains(low, "oomkilled"):
		return metrics.CauseHostOOMKilled
	case e.Reason == "Evicted" && strings.Contains(low, "storage"):
		return metrics.CauseDiskFull
	case e.Reason == "Evicted":
		return metrics.CauseHostNoMemory
	case e.Reason == "FailedScheduling", e.Reason == "ErrImagePull", e.Reason == "Failed" && strings.Contains(low, "image"), e.Reason == "FailedMount":
		return metrics.CauseStartupFailed
	}
	return ""
}

// runClass is the fault that the end of a container tells.
func runClass(r *Run) (class metrics.Cause, detail string) {
	detail = "exit code " + strconv.Itoa(r.Exit) + ", reason " + r.Reason
	switch {
	case r.Reason == "OOMKilled":
		return metrics.CauseHostOOMKilled, detail
	case r.Exit == 137, r.Signal == 9:
		return metrics.CauseKilledUnknown, detail + ": killed, and not by the limit of its own memory as far as this tells"
	case r.Exit == 143, r.Signal == 15:
		return metrics.CauseStopped, detail
	case r.Exit == 139, r.Exit == 134, r.Signal == 11, r.Signal == 6:
		return metrics.CauseNativeCrash, detail
	case r.Exit == 2:
		return metrics.CauseBadFlag, detail
	case r.Exit > 0:
		return metrics.CauseStartupFailed, detail
	}
	return "", ""
}

// Advice is what to do about a fault.
func (f Fault) Advice() string {
	if f.Class == metrics.CauseKilledUnknown {
		return "SIGKILL without OOMKilled: look for a probe that kills in the events, and for the node's OOM killer in its kernel log."
	}
	info, _ := f.Class.Info()
	return info.Advice
}
