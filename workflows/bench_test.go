package workflows_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/drover-run/drover/contract"
	"github.com/drover-run/drover/run"
)

// The benchmarks measure the workflows alone: records in memory and executors
// that answer immediately, on the server of DROVER_TEST_TEMPORAL. BenchmarkBare
// is the lower bound: a workflow of one activity.

func bareWorkflow(ctx workflow.Context, n int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, DisableEagerExecution: true})
	futures := make([]workflow.Future, n)
	for i := range futures {
		futures[i] = workflow.ExecuteActivity(ctx, "bare")
	}
	for _, f := range futures {
		if err := f.Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func BenchmarkBare(b *testing.B) {
	f := newCluster(b)
	defer startBare(b, f)()
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				h, err := f.client.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{
					ID: "bare-" + string(newRunID()), TaskQueue: "bare",
				}, "bare", n)
				require.NoError(b, err)
				require.NoError(b, h.Get(b.Context(), nil))
			}
		})
	}
}

// startBare starts a worker of bare workflows.
func startBare(b *testing.B, f *cluster) (stop func()) {
	b.Helper()
	w := worker.New(f.client, "bare", worker.Options{MaxConcurrentWorkflowTaskPollers: 8, MaxConcurrentActivityTaskPollers: 8})
	w.RegisterWorkflowWithOptions(bareWorkflow, workflow.RegisterOptions{Name: "bare"})
	w.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: "bare"})
	require.NoError(b, w.Start())
	return w.Stop
}

func BenchmarkRun(b *testing.B) {
	f := newCluster(b)
	chain := []run.Node{node("n0")}
	for i := 1; i < 300; i++ {
		chain = append(chain, node(fmt.Sprintf("n%d", i), i-1))
	}
	for _, bench := range []struct {
		name string
		plan run.Plan
	}{
		{"1", newPlan(node("a"))},
		{"1+100+1", newPlan(node("a"), wide("b", 100, 0), node("c", 1))},
		{"250", newPlan(wide("a", 250))},
		{"1000", newPlan(wide("a", 1000))},
		{"10000", newPlan(wide("a", 10000))},
		{"chain_of_100", newPlan(chain[:100]...)},
		{"chain_of_300", newPlan(chain...)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for range b.N {
				g := f.startScenario(b, scenario{plan: bench.plan, limits: benchLimits()})
				<-g.over
				require.Equal(b, run.ResultSuccess, g.result)
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*len(newFakeRecords(bench.plan).tasks)), "ms/task")
		})
	}
}

func benchLimits() *contract.Limits {
	var n int
	if _, err := fmt.Sscan(os.Getenv("BENCH_OPEN"), &n); err != nil {
		return nil
	}
	return &contract.Limits{OpenBatches: n}
}

// BenchmarkRuns has eight clients that each execute runs of one task, one run
// at a time.
func BenchmarkRuns(b *testing.B) {
	f := newCluster(b)
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			g := f.startScenario(b, scenario{plan: newPlan(node("a"))})
			<-g.over
		}
	})
}

// BenchmarkBares is BenchmarkRuns with bare workflows.
func BenchmarkBares(b *testing.B) {
	f := newCluster(b)
	defer startBare(b, f)()
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h, err := f.client.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{ID: "bare-" + string(newRunID()), TaskQueue: "bare"}, "bare", 1)
			if err == nil {
				err = h.Get(b.Context(), nil)
			}
			if err != nil {
				b.Error(err)
			}
		}
	})
}
