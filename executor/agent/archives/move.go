package archives

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/drover-run/drover/executor/transfer"
	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/run"
)

// save packs the step's files in the environment and stores them.
func (e *Transfer) save(ctx context.Context, requested transfer.StepRequest) ([]string, error) {
	order := run.ArchiveSave{Key: e.config.Key, Executor: e.config.Executor, Step: e.request.Step}
	what := archiveNoun(requested.Type)
	if len(requested.Keys) > 0 {
		order.CacheKey = requested.Keys[0]
		what += " " + requested.Keys[0]
	}
	upload, err := e.begin(ctx, order)
	if err != nil {
		return nil, err
	}
	if upload.Saved != nil {
		return []string{"the " + what + " is there already (" + size(upload.Saved.Size) + ")"}, nil
	}
	conn, err := e.archives.Connect(ctx)
	if err != nil {
		return nil, err
	}
	packing, err := transfer.Pack(ctx, conn, requested, limits(upload.Limits))
	if err != nil {
		return nil, err
	}
	defer func() { _ = packing.Close() }()
	ctx, stall := newStallTimer(ctx, e.config.Timing.Stall)
	defer stall.stop()
	source := &source{from: packing, transfer: e, stall: stall}
	info, err := e.config.API.SaveArchive(ctx, upload, source)
	switch {
	case err != nil && source.failed() != nil: // takes precedence over the error of the executor API
		return nil, source.failed()
	case err != nil:
		return nil, stall.explain(err)
	}
	stats := packing.Stats()
	lines := []string{"saved " + what + ": " + contents(stats) + ", " + size(info.Size) + " packed"}
	if stats.Skipped > 0 {
		lines = append(lines, fmt.Sprintf("skipped %d entries that are not files or were removed meanwhile", stats.Skipped))
	}
	return lines, nil
}

func (e *Transfer) begin(ctx context.Context, order run.ArchiveSave) (run.ArchiveUpload, error) {
	ctx, cancel := context.WithTimeout(ctx, e.config.Timing.Prepare)
	defer cancel()
	upload, err := e.config.API.BeginArchive(ctx, order)
	return upload, markPermanent(err)
}

// restore unpacks the archives that the executor API finds, one after the other.
func (e *Transfer) restore(ctx context.Context, requested transfer.StepRequest) (lines []string, err error) {
	what := archiveNoun(requested.Type)
	found, err := e.find(ctx, run.ArchiveQuery{Key: e.config.Key, Executor: e.config.Executor, Step: e.request.Step, Keys: requested.Keys})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		if len(requested.Keys) > 0 {
			return []string{"found no " + what + " for " + strings.Join(requested.Keys, ", ")}, nil
		}
		return []string{"found no " + what + ": no task before this one has saved any"}, nil
	}
	for _, ref := range found {
		stats, err := e.unpack(ctx, requested, ref)
		if err != nil {
			return lines, err
		}
		from := " " + ref.Name
		if ref.Kind == run.ArchiveWorkspace {
			from = " of " + ref.Name
		}
		lines = append(lines, "restored "+what+from+": "+contents(stats))
	}
	return lines, nil
}

func (e *Transfer) find(ctx context.Context, q run.ArchiveQuery) ([]run.ArchiveRef, error) {
	ctx, cancel := context.WithTimeout(ctx, e.config.Timing.Prepare)
	defer cancel()
	found, err := e.config.API.FindArchives(ctx, q)
	return found, markPermanent(err)
}

// markPermanent makes CodeGone permanent: at the beginning of a transfer a retry can not
// help.
func markPermanent(err error) error {
	if run.CodeOf(err) == run.CodeGone {
		return run.Errorf(run.CodeInvalid, "%w", err)
	}
	return err
}

func (e *Transfer) unpack(ctx context.Context, requested transfer.StepRequest, ref run.ArchiveRef) (archive.Stats, error) {
	conn, err := e.archives.Connect(ctx)
	if err != nil {
		return archive.Stats{}, err
	}
	ctx, stall := newStallTimer(ctx, e.config.Timing.Stall)
	defer stall.stop()
	content := &download{ctx: ctx, transfer: e, ref: ref, stall: stall, sum: sha256.New()}
	defer content.close()
	stats, err := transfer.Unpack(ctx, conn, requested, limits(ref.Limits), content)
	return stats, stall.explain(err)
}

func limits(l run.ArchiveLimits) transfer.Limits {
	return transfer.Limits{Entries: l.Entries, Bytes: l.Bytes}
}
