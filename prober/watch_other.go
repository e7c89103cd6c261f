//go:build !linux || !(amd64 || arm64)

package prober

// Watch does not exist here.
type Watch struct{}

// NewWatch returns nil, which watches nothing.
func NewWatch() *Watch { return nil }

// Close does nothing.
func (*Watch) Close() {}

func (*Watch) count() int { return 0 }

func (*Watch) add(*kernelStamps) (k *wakes, remove func()) { return nil, func() {} }
