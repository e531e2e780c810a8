package runtest

import (
	"context"

	"github.com/drover-run/drover/run"
)

// Executors implements run.ExecutorRegistry; without a function it returns none.
func (s *Service) Executors(ctx context.Context) ([]run.Executor, error) {
	if s.ExecutorsFunc == nil {
		return nil, nil
	}
	return s.ExecutorsFunc(ctx)
}

// Executor implements run.ExecutorRegistry; without a function it returns one
// of Executors.
func (s *Service) Executor(ctx context.Context, id string) (run.Executor, error) {
	if s.ExecutorFunc != nil {
		return s.ExecutorFunc(ctx, id)
	}
	list, err := s.Executors(ctx)
	for _, e := range list {
		if e.ID == id {
			return e, nil
		}
	}
	return run.Executor{}, orNotFound(err, "executor", id)
}

// DrainExecutor implements run.ExecutorRegistry.
func (s *Service) DrainExecutor(ctx context.Context, id, reason string) (run.Executor, error) {
	if s.DrainExecutorFunc == nil {
		return run.Executor{}, unset("DrainExecutor")
	}
	return s.DrainExecutorFunc(ctx, id, reason)
}

// ResumeExecutor implements run.ExecutorRegistry.
func (s *Service) ResumeExecutor(ctx context.Context, id string) (run.Executor, error) {
	if s.ResumeExecutorFunc == nil {
		return run.Executor{}, unset("ResumeExecutor")
	}
	return s.ResumeExecutorFunc(ctx, id)
}

// RemoveExecutor implements run.ExecutorRegistry.
func (s *Service) RemoveExecutor(ctx context.Context, id string, removal run.Removal) (run.Executor, error) {
	if s.RemoveExecutorFunc == nil {
		return run.Executor{}, unset("RemoveExecutor")
	}
	return s.RemoveExecutorFunc(ctx, id, removal)
}

// Pools implements run.ExecutorRegistry; without a function it returns none.
func (s *Service) Pools(ctx context.Context) ([]run.Pool, error) {
	if s.PoolsFunc == nil {
		return nil, nil
	}
	return s.PoolsFunc(ctx)
}

// Pool implements run.ExecutorRegistry; without a function it returns one of
// Pools.
func (s *Service) Pool(ctx context.Context, name string) (run.Pool, error) {
	if s.PoolFunc != nil {
		return s.PoolFunc(ctx, name)
	}
	list, err := s.Pools(ctx)
	for _, p := range list {
		if p.Name == name {
			return p, nil
		}
	}
	return run.Pool{}, orNotFound(err, "pool", name)
}

// PutPool implements run.ExecutorRegistry.
func (s *Service) PutPool(ctx context.Context, p run.Pool) (run.Pool, bool, error) {
	if s.PutPoolFunc == nil {
		return run.Pool{}, false, unset("PutPool")
	}
	return s.PutPoolFunc(ctx, p)
}

// DeletePool implements run.ExecutorRegistry.
func (s *Service) DeletePool(ctx context.Context, name string) error {
	if s.DeletePoolFunc == nil {
		return unset("DeletePool")
	}
	return s.DeletePoolFunc(ctx, name)
}

func orNotFound(err error, kind, name string) error {
	if err != nil {
		return err
	}
	return run.Errorf(run.CodeNotFound, "there is no %s %s", kind, name)
}
