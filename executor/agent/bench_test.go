package agent_test

import (
	"testing"

	"github.com/drover-run/drover/run"
)

// BenchmarkAgent_task measures the overhead of the executor for each task, with one
// slot and with many: its journal, and the communication between its goroutines.
func BenchmarkAgent_task(b *testing.B) {
	for _, slots := range []int{1, 16} {
		b.Run(map[int]string{1: "one_slot", 16: "16_slots"}[slots], func(b *testing.B) {
			w := newTestEnv(b)
			defer w.close()
			w.script = func(run.Key) script { return script{lines: 1} }
			w.newHost(slots).start(nil)
			done := make(chan struct{})
			limit := make(chan struct{}, 4*slots)
			b.ResetTimer()
			for i := range b.N {
				limit <- struct{}{}
				go func() {
					w.workflow(i, 1, 0)
					<-limit
					done <- struct{}{}
				}()
				if i >= 4*slots {
					<-done
				}
			}
			for range min(b.N, 4*slots) {
				<-done
			}
		})
	}
}
