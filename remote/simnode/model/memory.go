package model

import "math"

// Memory of one card, in bytes. All from the run's own figures: 94.04 GiB are
// free when the engine has its context and its communicators, 72.33 GiB of
// that are weights, and a token's keys and values are 61 layers of 576 values
// on every rank (MLA keeps a full copy a rank).
const (
	gib          = 1 << 30
	mib          = 1 << 20
	cardBytes    = 97887 * mib
	freeAtStart  = 100_971_496_742
	weightBytes  = 77_662_200_205
	kvValues     = 61 * 576
	contextBytes = cardBytes - freeAtStart
	// activationToken is what the widest moment of a prefill takes for each
	// token of the chunk, samplerBytes what it takes once: 1.06 GiB for a full
	// chunk of 8192, which torch keeps afterwards.
	activationToken = 128 << 10
	samplerBytes    = 61 << 20
)

// kvToken is the size of one token in the pool of one rank.
func (f Flags) kvToken() int64 {
	if f.fp8() {
		return kvValues
	}
	return kvValues * 2
}

// poolBytes is what mem-fraction-static leaves for the pool after the weights;
// negative when the weights alone are over it. With fewer ranks than eight each
// holds more of the weights.
func (f Flags) poolBytes() int64 {
	weights := float64(weightBytes) * 8 / float64(max(1, f.TP))
	if f.VLLM {
		return f.vllmPool(int64(weights))
	}
	return int64(math.Floor(float64(freeAtStart*f.MemFraction) - weights))
}

// poolTokens is the capacity of the pool.
func (f Flags) poolTokens() int {
	return int(math.Floor(float64(f.poolBytes()) / float64(f.kvToken())))
}

// workspace is what attention workspaces and captured graphs take: 5.81 GiB
// where 0.88 was tried, and a little less where less was left to the allocator.
func (f Flags) workspace() int64 {
	if f.VLLM {
		return graphBytes
	}
	w := 5.81 - float64(0.944*(f.MemFraction-0.88))
	return int64(w * gib)
}

// headroom is what is free when the graphs are captured; negative when they do
// not fit.
func (f Flags) headroom() int64 {
	if f.VLLM {
		return int64(float64(cardBytes)*(1-f.MemFraction)) + activation(f.ChunkedSize)
	}
	return freeAtStart - int64(float64(freeAtStart)*f.MemFraction) - f.workspace()
}

// activation is the peak of a prefill over so many tokens.
func activation(tokens int) int64 { return int64(tokens)*activationToken + samplerBytes }

// maxRunning is the engine's own limit of running requests.
func (f Flags) maxRunning() int {
	if f.MaxRunning > 0 {
		return f.MaxRunning
	}
	return min(max(f.poolTokens()*512/max(1, f.ContextLen), 2048), 4096)
}

// hostTokens is the capacity of the hierarchical cache's host pool on one rank.
func (f Flags) hostTokens() int {
	if !f.HiCache {
		return 0
	}
	if f.HiCacheSize > 0 {
		return int(int64(f.HiCacheSize)*1e9/f.kvToken()) + 1
	}
	return int(f.HiCacheRatio*float64(f.poolTokens())) + 1
}

// hostBytes is what one rank pins for it.
func (f Flags) hostBytes() int64 { return int64(f.hostTokens()) * f.kvToken() }
