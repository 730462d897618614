// Package k8s reads what kubectl prints about pods: get, describe, get events,
// and the YAML of a pod, whole or in parts. It looks for exit codes, reasons,
// restarts and probes; everything else is passed over.
package k8s

import (
	"strconv"
	"strings"

	"github.com/runvigil/runvigil/metrics"
)

// Run is one life of a container: the present one or the last.
type Run struct {
	State    string // Running, Waiting, Terminated; "" unknown
	Reason   string // OOMKilled, Error, CrashLoopBackOff …
	Message  string
	Exit     int // exit code, -1 unknown
	Signal   int // -1 unknown
	Started  string
	Finished string
}

// Container is one container of a pod.
type Container struct {
	Name     string
	Image    string
	Port     int // first one, 0 unknown
	Ready    string
	Restarts int // -1 unknown
	Now      Run
	Last     Run
	Limits   map[string]string // memory, nvidia.com/gpu …
}

// Pod is one pod. Status is what get prints in its column, or else describe's.
type Pod struct {
	Name, Namespace, Node string
	Status, Ready, Age    string
	Restarts              int // -1 unknown
	Reason, Message       string
	Containers            []Container
}

// Event is one line of a pod's events.
type Event struct {
	Type, Reason, Message string
	Line                  int64
}

// Fault is what the output says went wrong.
type Fault struct {
	Class   metrics.Cause
	Detail  string
	Subject string // container or pod
	Line    int64
	Primary bool
}

// Report is everything that was read.
type Report struct {
	Pods   []Pod
	Events []Event
	faults []Fault
}

const (
	maxText  = 300
	maxItems = 512
)

// Parse reads the output. Strings of the report are cleaned and masked.
func Parse(data []byte) *Report {
	p := parser{r: &Report{}}
	for line := range strings.Lines(string(data)) {
		p.line++
		if len(line) > 16<<10 {
			line = line[:16<<10]
		}
		// Masked whole: a name and its secret must not be torn apart first.
		p.one(strings.TrimRight(metrics.Mask(metrics.Clean(strings.TrimRight(line, "\r\n"), 0)), " "))
	}
	p.judge()
	return p.r
}

type parser struct {
	r       *Report
	line    int64
	columns []column // of a table of get
	events  bool     // inside the events of describe
	block   string   // heading of the block that indented keys belong to
	blockAt int      // its indent
	run     *Run     // the state that indented keys describe
	runAt   int
	lines   map[*Run]int64
	inList  bool // inside Containers:
	listAt  int
}

type column struct {
	name string
	from int
}

func (p *parser) one(s string) {
	text := strings.TrimLeft(s, " ")
	indent := len(s) - len(text)
	if text == "" {
		return
	}
	if indent == 0 && p.header(s) {
		return
	}
	if len(p.columns) > 0 && indent == 0 && p.tableRow(s) {
		return
	}
	if p.events && indent > 0 && p.eventRow(text) {
		return
	}
	key, value, found := strings.Cut(text, ":")
	value = strings.Trim(strings.TrimSpace(value), `"`)
	key = strings.TrimPrefix(strings.TrimSpace(key), "- ")
	if !found || strings.ContainsAny(key, "=") && value == "" {
		if indent == 0 && !strings.ContainsAny(text, " \t") && p.lineIsName(text) {
			p.container(text)
		}
		return
	}
	if indent == 0 {
		p.events, p.columns = false, nil
	}
	p.keyValue(indent, key, value)
}

// lineIsName takes a bare word before a container's keys, as a cut copy begins.
func (p *parser) lineIsName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// header takes the column names of get's tables.
func (p *parser) header(s string) bool {
	fields := strings.Fields(s)
	if len(fields) < 3 || fields[0] != "NAME" && fields[0] != "NAMESPACE" && fields[0] != "LAST" {
		return false
	}
	if strings.ToUpper(s) != s {
		return false
	}
	p.columns = nil
	for _, f := range fields {
		if f == "SEEN" {
			continue // LAST SEEN is one column
		}
		p.columns = append(p.columns, column{f, strings.Index(s, f)})
	}
	return true
}

// tableRow reads a row by words: the values of a column may be wider than its
// heading, and RESTARTS holds spaces ("5 (2m30s ago)").
func (p *parser) tableRow(s string) bool {
	if i := strings.Index(s, ": "); i > 0 && !strings.Contains(s[:i], " ") {
		return false
	}
	words := strings.Fields(s)
	var row []string
	for i := 0; i < len(words); i++ {
		w := words[i]
		if strings.HasPrefix(w, "(") {
			for i++; i < len(words) && !strings.HasSuffix(words[i], ")"); i++ {
			}
			continue
		}
		row = append(row, w)
	}
	if len(row) < 3 {
		return false
	}
	at := func(name string) string {
		for i, c := range p.columns {
			if c.name == name && i < len(row) {
				return row[i]
			}
		}
		return ""
	}
	if p.columns[0].name == "LAST" || at("TYPE") == "Warning" || at("TYPE") == "Normal" {
		for i, c := range p.columns {
			if c.name == "MESSAGE" && i < len(row) {
				p.event(at("TYPE"), at("REASON"), strings.Join(row[i:], " "))
			}
		}
		return true
	}
	if at("STATUS") == "" || len(p.r.Pods) >= maxItems {
		return true
	}
	pod := p.pod(at("NAME"))
	pod.Status, pod.Ready, pod.Age = at("STATUS"), at("READY"), at("AGE")
	pod.Restarts = number(at("RESTARTS"))
	if ns := at("NAMESPACE"); ns != "" {
		pod.Namespace = ns
	}
	return true
}

// eventRow reads "Warning  Unhealthy  2m (x5 over 9m)  kubelet  message".
func (p *parser) eventRow(text string) bool {
	words := strings.Fields(text)
	if len(words) < 4 || words[0] != "Warning" && words[0] != "Normal" {
		return strings.HasPrefix(text, "----") || strings.HasPrefix(text, "Type ")
	}
	i := 2
	for i < len(words) && words[i] != "kubelet," && words[i] != "kubelet" && !strings.HasSuffix(words[i], "-scheduler") && !strings.HasSuffix(words[i], "-controller") {
		i++
	}
	if i+1 >= len(words) {
		i = min(3, len(words)-2)
	}
	p.event(words[0], words[1], strings.Join(words[i+1:], " "))
	return true
}

func (p *parser) event(kind, reason, message string) {
	if len(p.r.Events) < maxItems {
		p.r.Events = append(p.r.Events, Event{kind, metrics.Cut(reason, maxText), metrics.Cut(message, maxText), p.line})
	}
}

// keyValue takes a key of describe or of YAML.
func (p *parser) keyValue(indent int, key, value string) {
	name := strings.ToLower(strings.ReplaceAll(key, " ", ""))
	if p.run != nil && indent > p.runAt && p.runKey(name, value) {
		return
	}
	p.run = nil
	if p.block == "limits" && indent > p.blockAt {
		if c := p.lastContainer(); c != nil && len(c.Limits) < 32 {
			if c.Limits == nil {
				c.Limits = map[string]string{}
			}
			c.Limits[metrics.Cut(key, 64)] = metrics.Cut(value, 64)
		}
		return
	}
	p.block = ""
	switch name {
	case "name":
		if indent == 0 {
			p.pod(value)
		}
	case "namespace", "node", "status", "reason", "message":
		if indent == 0 && len(p.r.Pods) > 0 {
			pod := &p.r.Pods[len(p.r.Pods)-1]
			switch name {
			case "namespace":
				pod.Namespace = metrics.Cut(value, maxText)
			case "node":
				pod.Node = metrics.Cut(value, maxText)
			case "status":
				if pod.Status == "" { // get's column says more: "Running" may be a crash loop
					pod.Status = metrics.Cut(value, maxText)
				}
			case "reason":
				pod.Reason = metrics.Cut(value, maxText)
			case "message":
				pod.Message = metrics.Cut(value, maxText)
			}
		}
	case "containers", "initcontainers", "containerstatuses", "initcontainerstatuses":
		p.inList, p.listAt = true, indent
	case "conditions", "volumes", "nodeselectors", "tolerations", "qosclass":
		p.inList = false
	case "events":
		p.events, p.inList = true, false
	case "limits":
		p.block, p.blockAt = "limits", indent
	case "image", "port", "ports", "ready", "restartcount", "state", "laststate":
		p.containerKey(indent, name, value)
	default:
		if p.inList && value == "" && indent == p.listAt+2 {
			p.container(key)
		}
	}
}

func (p *parser) containerKey(indent int, name, value string) {
	c := p.lastContainer()
	if c == nil {
		p.container("")
		c = p.lastContainer()
	}
	switch name {
	case "image":
		c.Image = metrics.Cut(value, maxText)
	case "port", "ports":
		if n := number(leadingDigits(value)); n > 0 && c.Port == 0 {
			c.Port = n
		}
	case "ready":
		c.Ready = metrics.Cut(value, 16)
	case "restartcount":
		c.Restarts = number(value)
	case "state", "laststate":
		run := &c.Now
		if name == "laststate" {
			run = &c.Last
		}
		run.State = metrics.Cut(value, 64)
		p.run, p.runAt = run, indent
	}
}

// runKey takes what stands below a state.
func (p *parser) runKey(name, value string) bool {
	r := p.run
	switch name {
	case "reason":
		r.Reason = metrics.Cut(value, maxText)
	case "message":
		r.Message = metrics.Cut(value, maxText)
	case "exitcode":
		r.Exit = number(value)
	case "signal":
		r.Signal = number(value)
	case "started", "startedat":
		r.Started = metrics.Cut(value, 64)
	case "finished", "finishedat":
		r.Finished = metrics.Cut(value, 64)
	case "terminated", "running", "waiting":
		r.State = strings.ToUpper(name[:1]) + name[1:]
		return true
	default:
		return false
	}
	if name == "exitcode" || name == "reason" {
		if p.lines == nil {
			p.lines = map[*Run]int64{}
		}
		p.lines[r] = p.line
	}
	return true
}

func (p *parser) pod(name string) *Pod {
	name = metrics.Cut(name, maxText)
	for i := range p.r.Pods {
		if p.r.Pods[i].Name == name {
			return &p.r.Pods[i]
		}
	}
	if len(p.r.Pods) >= maxItems {
		return &p.r.Pods[len(p.r.Pods)-1]
	}
	p.r.Pods = append(p.r.Pods, Pod{Name: name, Restarts: -1})
	return &p.r.Pods[len(p.r.Pods)-1]
}

func (p *parser) container(name string) {
	if len(p.r.Pods) == 0 {
		p.pod("")
	}
	pod := &p.r.Pods[len(p.r.Pods)-1]
	if len(pod.Containers) >= maxItems {
		return
	}
	c := Container{Name: metrics.Cut(name, maxText), Restarts: -1}
	c.Now.Exit, c.Now.Signal, c.Last.Exit, c.Last.Signal = -1, -1, -1, -1
	pod.Containers = append(pod.Containers, c)
}

func (p *parser) lastContainer() *Container {
	if len(p.r.Pods) == 0 {
		return nil
	}
	pod := &p.r.Pods[len(p.r.Pods)-1]
	if len(pod.Containers) == 0 {
		return nil
	}
	return &pod.Containers[len(pod.Containers)-1]
}

func leadingDigits(s string) string {
	end := 0
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	return s[:end]
}

// number reads a plain number, -1 for anything else.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
