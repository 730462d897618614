package model

import "math"

// source is splitmix64: small, and the same bits on every machine, which the
// recordings made from the model rely on.
type source uint64

func (s *source) next() uint64 {
	*s += 0x9E3779B97F4A7C15
	return mix(uint64(*s))
}

func mix(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	return z ^ (z >> 31)
}

// between is uniform over [low, high].
func (s *source) between(low, high int64) int64 {
	return low + int64(s.next()%uint64(high-low+1))
}

// unit maps 64 bits to (0, 1).
func unit(bits uint64) float64 { return (float64(bits>>11) + 0.5) / (1 << 53) }

// spread is number i of a sequence in which any run of neighbours fills (0, 1)
// evenly (additive recurrence with the golden ratio, blurred by a tenth so that
// it does not look like one).
func spread(seed uint64, i int) float64 {
	bits := seed + uint64(i)*0x9E3779B97F4A7C15
	blur := mix(seed^uint64(i)*0xD1342543DE82EF95) / 10
	return unit(bits + blur)
}

// exponential turns a number of (0, 1) into an exponential length of at least 1.
func exponential(mean float64, u float64) int {
	return 1 + int(-mean*math.Log(u))
}

// wave is a smooth value of about [-1, 1] that depends on time alone, so that
// a figure read twice at one moment is the same both times.
func wave(seed uint64, seconds float64) float64 {
	i := math.Floor(seconds)
	f := seconds - i
	f = f * f * (3 - 2*f)
	a := 2*unit(mix(seed+uint64(int64(i))*0x9E3779B97F4A7C15)) - 1
	b := 2*unit(mix(seed+uint64(int64(i)+1)*0x9E3779B97F4A7C15)) - 1
	return float64(a*(1-f)) + float64(b*f)
}
