package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/drover-run/drover/run"
)

const (
	// endLag is how much later than a step that failed because of it a service may end.
	endLag = 250 * time.Millisecond
	// endNews bounds the wait for the end of a service that has no processes any more: the
	// daemon first removes what the runtime has of it, which a loaded host does slowly.
	endNews = 10 * time.Second
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
	if ended, err := h.serviceEnds(ctx, c.ID); err != nil || !ended {
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

// serviceEnds reports whether a service has ended or is about to. Its processes tell that
// long before the daemon does.
func (h *handle) serviceEnds(ctx context.Context, id string) (bool, error) {
	d := h.driver
	if ended, err := d.endsWithin(ctx, id, endLag); err != nil || ended {
		return ended, err
	}
	limited, cancel := context.WithTimeout(ctx, endNews)
	defer cancel()
	top, err := d.client.ContainerTop(limited, id, nil)
	if err == nil && len(top.Processes) > 0 {
		return false, nil
	}
	if err != nil && !cerrdefs.IsConflict(err) && !cerrdefs.IsNotFound(err) {
		// The runtime of a container that ends gives errors too, but not that of the main one.
		if _, broken := d.client.ContainerTop(limited, h.id, nil); broken != nil {
			return false, daemonError(err, "list the processes of container %s", id)
		}
	}
	return d.endsWithin(ctx, id, endNews)
}
