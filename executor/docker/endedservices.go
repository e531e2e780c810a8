package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/run"
)

const (
	// endLag is how much later than a step that failed because of it the end of a service
	// may be known.
	endLag = 250 * time.Millisecond
	// noteLines is how many of the last log lines of a service are in a note.
	noteLines = 3
)

// endedServices describes the services of a failed task that had ended: its steps only
// find that they cannot reach them.
func (h *handle) endedServices(ctx context.Context, r *run.TaskResult) []string {
	if r == nil || r.Status != run.StatusFailed || r.Cause != run.CauseStep && r.Cause != run.CauseTimeout {
		return nil
	}
	others, err := h.driver.others(ctx, h.key)
	if err != nil {
		h.driver.log.WarnContext(ctx, "failed to look for services that ended", "key", h.key.String(), "error", err)
		return nil
	}
	texts := make([]string, len(others))
	var group errgroup.Group
	for i, c := range others {
		if c.Labels[h.driver.options.label("role")] != roleService {
			continue
		}
		group.Go(func() (err error) {
			texts[i], err = h.endOfService(ctx, c, r.Ended.Add(endLag))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		h.driver.log.WarnContext(ctx, "failed to look for services that ended", "key", h.key.String(), "error", err)
	}
	texts = slices.DeleteFunc(texts, func(text string) bool { return text == "" })
	slices.Sort(texts)
	return texts
}

// endOfService describes the end of a service before a time, "" if there was none.
func (h *handle) endOfService(ctx context.Context, c container.Summary, before time.Time) (string, error) {
	d := h.driver
	if ended, err := d.endsWithin(ctx, c.ID, endLag); err != nil || !ended {
		return "", err
	}
	service, err := d.client.ContainerInspect(ctx, c.ID)
	if err != nil {
		return "", daemonError(err, "inspect service %s", c.Names)
	}
	at, err := time.Parse(time.RFC3339Nano, service.State.FinishedAt)
	if err != nil || at.After(before) { // with its host
		return "", nil //nolint:nilerr // the daemon does not know when
	}
	text := fmt.Sprintf("service %s (%s) had ended: %s", c.Labels[d.options.label("service")], c.Image, endReason(checkMemory(ctx, d, service)))
	if h.secrets == nil { // its output may contain them
		return text, nil
	}
	lines, err := d.lastLines(ctx, c.ID)
	if err == nil && len(lines) > 0 {
		lines = strings.Split(h.secrets.String(strings.Join(lines, "\n")), "\n") // secrets may have several lines
		text += ": " + strings.Join(lines[max(0, len(lines)-noteLines):], " | ")
	}
	return text, err
}
