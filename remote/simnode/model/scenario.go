package model

// Scenario is a state of the node to begin with. The fields beyond Name and
// Title are the model's own.
type Scenario struct {
	Name  string // as in demo:NAME
	Title string // one line for a list
}

// Scenarios lists all, the default first.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "story", Title: "19 minutes into the run: settled, the client's log empty"},
		{Name: "ramp", Title: "2 minutes into the run: fast, because requests are young"},
		{Name: "healthy", Title: "a settled run without anything to say"},
		{Name: "idle", Title: "server up, the job at its target"},
		{Name: "loading", Title: "a server half-way through its start"},
		{Name: "oom", Title: "mem-fraction-static 0.93: crashed in its first large prefill"},
		{Name: "hang", Title: "no token for three minutes, /health still 200"},
		{Name: "client-dead", Title: "client killed six minutes ago, server idle"},
		{Name: "no-server", Title: "server killed five minutes ago, client retries"},
		{Name: "gpu-lost", Title: "one GPU has fallen off the bus"},
	}
}

// Lookup finds a scenario by name.
func Lookup(name string) (Scenario, bool) {
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}
