package vllmsim

import (
	"container/list"
	"encoding/binary"
	"hash/maphash"
	"sync"
)

// prefixCache knows which prompt prefixes have been computed, in blocks, and forgets the least recently used.
// Prompts with different salts share nothing.
type prefixCache struct {
	seed     maphash.Seed
	capacity int // blocks

	mu     sync.Mutex
	blocks map[uint64]*list.Element
	recent *list.List // block keys, most recently used first
}

func newPrefixCache(capacity int) *prefixCache {
	return &prefixCache{
		seed:     maphash.MakeSeed(),
		capacity: capacity,
		blocks:   map[uint64]*list.Element{},
		recent:   list.New(),
	}
}

// use returns how many tokens at the start of the prompt were known, and how many become known by it. The last
// token never counts as known: something has to be computed.
func (c *prefixCache) use(salt string, prompt []int) (cached, created int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hit := true
	for i, key := range c.keys(salt, prompt) {
		element, known := c.blocks[key]
		hit = hit && known
		switch {
		case known:
			c.recent.MoveToFront(element)
		default:
			c.blocks[key] = c.recent.PushFront(key)
			created += blockSize
		}
		if hit && (i+1)*blockSize < len(prompt) {
			cached = (i + 1) * blockSize
		}
	}
	for c.recent.Len() > c.capacity {
		delete(c.blocks, c.recent.Remove(c.recent.Back()).(uint64))
	}
	return cached, created
}

// keys names the full blocks of a prompt; each key stands for the whole prefix up to it.
func (c *prefixCache) keys(salt string, prompt []int) []uint64 {
	keys := make([]uint64, 0, len(prompt)/blockSize)
	var h maphash.Hash
	h.SetSeed(c.seed)
	h.WriteString(salt)
	for len(prompt) >= blockSize {
		for _, id := range prompt[:blockSize] {
			var b [4]byte
			binary.LittleEndian.PutUint32(b[:], uint32(id))
			h.Write(b[:])
		}
		keys = append(keys, h.Sum64())
		prompt = prompt[blockSize:]
	}
	return keys
}
