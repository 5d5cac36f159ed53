package mobility

import (
	"fmt"
	"path/filepath"
	"testing"
)

// A thousand users with about sixty transitions each: writing them, loading one from its file, and
// loading one that is in memory.
func BenchmarkPersonals(b *testing.B) {
	const users = 1000
	popular := neighbourModel(b, 6, 10, 1, true, 1)
	b.Run("write", func(b *testing.B) {
		n := 0
		for b.Loop() {
			dir := filepath.Join(b.TempDir(), fmt.Sprint(n))
			n++
			if err := WritePersonals(dir, popular, usersNamed(users, 60)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(users*n)/b.Elapsed().Seconds(), "users/s")
	})
	dir := filepath.Join(b.TempDir(), "loaded")
	if err := WritePersonals(dir, popular, usersNamed(users, 60)); err != nil {
		b.Fatal(err)
	}
	for name, memory := range map[string]int64{"file": 0, "memory": 1 << 30} {
		p, err := OpenPersonals(dir, popular, memory)
		if err != nil {
			b.Fatal(err)
		}
		b.Run("load from "+name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				if m, err := p.Load(fmt.Sprintf("person-%d", n%users)); err != nil || m == nil {
					b.Fatal(err)
				}
				n++
			}
		})
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
