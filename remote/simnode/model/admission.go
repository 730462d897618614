package model

import "sort"

// reserve is the room kept for the growth of running requests.
func (e *engine) reserve() int {
	sum := 0
	for _, r := range e.running {
		sum += min(r.limit-e.output(r), clipTokens)
	}
	return sum * e.ratio / 1_000_000
}

// admit says whether the head of the queue may join. Before the pool has ever
// overflowed the engine trusts its estimate, as SGLang does; afterwards it
// admits no more than fit when they are grown.
func (e *engine) admit(r *request, left, ahead, room int) bool {
	if !e.full {
		return left+ahead < room
	}
	running := len(e.running) + len(e.batch)
	return running < e.grown() && e.live+left+2*running+steadyMargin <= e.capacity
}

// grown is how many requests fit when each has the length that running requests
// have on average once the ramp is over: the prompt and the mean output (half
// of a longer one: whoever looks meets long requests more often). The pool then
// stands at 0.973, because a request that ends leaves its own size free.
func (e *engine) grown() int {
	size := float64(e.n.meanSize())
	wander := 0.8 * wave(e.n.scenario.seed^21, e.n.at.Seconds()/150)
	return max(1, int(float64(e.capacity)*0.9845/size+wander))
}

// steady regulates the ends of a settled pool. Each running request may end at
// any step, as exponential lengths mean, but the moment is when the pool is
// just about to be full, and who ends goes evenly through young and old. Drawn
// freely, the same lengths would make the node swing between 20 and 50 running
// requests and retract; the run of the story held 35 and did neither. Where
// the pool does not fill, because clients take requests away, the ends come at
// the rate that their mean length gives, late by a few.
func (e *engine) steady() {
	mean := e.n.meanOutput()
	e.owed += len(e.running)
	for len(e.running) > 0 {
		margin := steadyMargin + int(mix(uint64(e.ended)^e.n.scenario.seed)%700)
		switch {
		case e.live+2*len(e.running)+margin > e.capacity:
			e.owed = 0
		case e.owed >= mostOwed*mean:
			e.owed -= mean
		default:
			return
		}
		order := append([]*request(nil), e.running...)
		sort.SliceStable(order, func(i, j int) bool { return order[i].base > order[j].base })
		e.ended++
		r := order[int(spread(e.n.scenario.seed, e.ended)*float64(len(order)))]
		r.target = e.output(r)
		e.remove(r)
	}
}

// settle turns regulation on or off. Memoryless lengths allow it: what a
// request has already written tells nothing of what is still to come.
func (e *engine) settle(on bool) {
	if e.settled == on {
		return
	}
	e.settled, e.owed = on, 0
	for _, r := range e.running {
		if r.limit != outputLimit {
			continue // not one of the job's
		}
		r.target = r.limit
		if !on {
			luck := source(uint64(r.id) ^ e.n.scenario.seed)
			r.target = min(r.limit, e.output(r)+exponential(float64(e.n.meanOutput()), unit(luck.next())))
		}
	}
	sort.SliceStable(e.running, func(i, j int) bool { return e.running[i].ends() < e.running[j].ends() })
}

func (e *engine) remove(r *request) {
	for i, q := range e.running {
		if q == r {
			e.running = append(e.running[:i], e.running[i+1:]...)
			break
		}
	}
	r.out, r.active = r.target, false
	e.finish(r)
}

// retract takes back the youngest requests until the rest can go on for
// retractSteps steps, and queues them again with what they have.
func (e *engine) retract() {
	before := e.ratio
	order := append([]*request(nil), e.running...)
	sort.SliceStable(order, func(i, j int) bool { return e.output(order[i]) > e.output(order[j]) })
	taken, gained := 0, 0
	for len(order) > 1 && e.live+len(order)*retractSteps > e.capacity {
		r := order[len(order)-1]
		order = order[:len(order)-1]
		r.out = e.output(r)
		r.active = false
		size := r.prompt + r.out
		e.live -= size
		gained += size
		taken++
		e.count.retractedIn += int64(r.prompt)
		e.count.retractedOut += int64(r.out)
		e.queue = append(e.queue, r)
	}
	kept := e.running[:0]
	decoded, allowed := 0, 0
	for _, r := range e.running {
		if r.active {
			kept = append(kept, r)
			decoded += e.output(r)
			allowed += r.limit
		}
	}
	clear(e.running[len(kept):])
	e.running = kept
	e.count.retracted += taken
	e.ratio = min(1_000_000, int(int64(decoded+retractSteps*len(kept))*1_000_000/int64(allowed+1)))
	e.full = true
	e.logRetract(taken, gained, before)
}
