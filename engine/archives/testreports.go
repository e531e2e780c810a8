package archives

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/archive"
	"github.com/drover-run/drover/internal/mask"
	"github.com/drover-run/drover/records"
	"github.com/drover-run/drover/run"
)

// Bounds for reading test reports when an artifact is saved.
const (
	maxReportBytes  = 16 << 20
	maxReports      = 2000
	maxReportsBytes = 128 << 20
	// reportsTime is less than an executor waits for the answer to its upload.
	reportsTime = 2 * time.Minute
)

var errReportsTime = fmt.Errorf("it took more than %s", reportsTime)

// testReports reads the test reports in an archive. The summary has the reasons
// for reports that cannot be read, because a retry would not help. The error is
// one of the store, or of an invalid archive.
func (s *Service) testReports(ctx context.Context, c records.ArchiveClaim, object string) (run.TestSummary, error) {
	hidden, fault, err := s.taskSecrets(ctx, c)
	if err != nil {
		return run.TestSummary{}, err
	}
	if fault != "" {
		return run.TestSummary{Faults: []string{"the reports were not read, because the secrets in them cannot be hidden: " + fault}}, nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, reportsTime, errReportsTime)
	defer cancel()
	if err := s.reads.reports.Acquire(limited, 1); err != nil {
		return unreadSummary(ctx, fmt.Errorf("%w waiting for other reports", errReportsTime), err)
	}
	defer s.reads.reports.Release(1)
	content, err := s.objects.GetArchive(ctx, object, 0)
	if err != nil {
		return run.TestSummary{}, err
	}
	defer func() { _ = content.Close() }() // it was only read
	all, err := readReports(limited, content, s.scanLimits(run.ArchiveArtifact), hidden)
	switch code := run.CodeOf(err); {
	case err == nil:
		return all, nil
	case code == run.CodeTooLarge:
	case limited.Err() != nil:
		err = errReportsTime
	default:
		return run.TestSummary{}, err
	}
	rest, err := unreadSummary(ctx, err, err)
	all.Add(rest)
	return all, err
}

// unreadSummary returns the summary of reports that are not read because of a bound.
// If the call itself has ended, it returns only the error.
func unreadSummary(ctx context.Context, why, err error) (run.TestSummary, error) {
	if ctx.Err() != nil {
		return run.TestSummary{}, run.Errorf(run.CodeCanceled, "read test reports: %w", err)
	}
	return run.TestSummary{Faults: []string{"not all reports were read: " + why.Error()}}, nil
}

// taskSecrets returns the secrets of the task that saves an archive. The fault
// says why a secret of a provider is permanently unavailable; unavailable is an
// error.
func (s *Service) taskSecrets(ctx context.Context, c records.ArchiveClaim) (hidden *mask.Set, fault string, err error) {
	spec, err := s.store.ClaimSecrets(ctx, c)
	if err != nil {
		return nil, "", err
	}
	d, err := s.resolve(ctx, run.Define(spec, new(run.TaskSpec), run.ExpandedTask{}, c.Key, 0))
	if err != nil {
		return nil, "", err
	}
	return mask.NewSet(d.Secrets), d.Fault, nil
}

func readReports(ctx context.Context, content io.Reader, limits archive.Limits, hidden *mask.Set) (run.TestSummary, error) {
	var all run.TestSummary
	reader := &reportReader{masker: hidden, left: maxReportTests}
	reports, bytes := 0, int64(0)
	err := archive.List(ctx, content, limits, func(entry archive.Entry, r io.Reader) bool {
		if !entry.Mode.IsRegular() || entry.Link != "" || !strings.EqualFold(path.Ext(entry.Name), ".xml") {
			return true
		}
		reports++
		bytes += entry.Size
		name := reader.displayText(entry.Name)
		switch {
		case reports > maxReports || bytes > maxReportsBytes:
			all.Add(run.TestSummary{Faults: []string{name + " and what follows were not read: there are too many reports"}})
			return false
		case entry.Size > maxReportBytes:
			all.Add(run.TestSummary{Faults: []string{fmt.Sprintf("%s: it has more than %d bytes", name, maxReportBytes)}})
			return true
		}
		summary, err := reader.read(r)
		if err != nil {
			summary = run.TestSummary{Faults: []string{name + ": " + reader.displayText(err.Error())}}
		}
		all.Add(summary)
		return true
	})
	return all, err
}
