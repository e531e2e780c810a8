package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// smallFile is the size of the smallest files of the tree. There are
	// fileSizes sizes, each twice as large as the one before.
	smallFile = 16 << 10
	fileSizes = 7
	// treeFiles is the number of files: together some 500 MiB, of which
	// compression saves about half.
	treeFiles = 1792
	// archiveRounds is how often Drover and the plain commands take turns.
	archiveRounds = 3
)

// archives compares saving and restoring a workspace with plain tar and zstd of
// the same tree, on the same disk, in turns.
func archives(ctx context.Context, d *dev, t *table, files int) error {
	dir, err := os.MkdirTemp("", "drover-bench-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tree, size := filepath.Join(dir, "tree"), int64(0)
	words := newVocabulary()
	for i := range files {
		n, err := words.writeFile(filepath.Join(tree, fmt.Sprint(i%16), fmt.Sprint(i)), i)
		if err != nil {
			return err
		}
		size += n
	}
	usage := d.usage()
	directions := []*archiveDirection{
		{task: "save", name: "saved", plain: "tar -C tree -cf - . | zstd -1 -T2 -q -f -o packed"},
		{task: "restore", name: "restored", plain: "rm -rf plain && mkdir plain && zstd -dc -q packed | tar -C plain -xf -"},
	}
	for range archiveRounds {
		if err := moveWorkspace(ctx, d, dir, directions); err != nil {
			return err
		}
	}
	used := d.usage().since(usage)
	for _, direction := range directions {
		took, bare := percentile(direction.ours, 50), percentile(direction.bare, 50)
		t.add(resultRow{
			name:   fmt.Sprintf("a workspace of %d MiB %s, median of %d; bare is tar and zstd", size>>20, direction.name, archiveRounds),
			drover: speed(size, took), bare: speed(size, bare), ratio: ratio(took, bare), usage: used,
		})
	}
	return nil
}

// archiveDirection is a direction, with its times.
type archiveDirection struct {
	task, name, plain string
	ours, bare        []time.Duration
}

// moveWorkspace saves and restores the tree once, with Drover and with the
// plain commands.
func moveWorkspace(ctx context.Context, d *dev, dir string, directions []*archiveDirection) error {
	restored := filepath.Join(dir, "restored")
	if err := os.RemoveAll(restored); err != nil {
		return err
	}
	id, _, err := d.run(ctx, fmt.Sprintf("name: archives\ngroup: /bench/archives\ntasks:\n"+
		"  save: {steps: [{save_workspace: {root: %s}}]}\n  restore: {depends: [save], steps: [{restore_workspace: {to: %s}}]}\n",
		filepath.Join(dir, "tree"), restored))
	if err != nil {
		return err
	}
	r, err := d.read(ctx, id)
	if err != nil {
		return err
	}
	for _, direction := range directions {
		task := r.Tasks[direction.task]
		if task.Status != "success" {
			return fmt.Errorf("task %s: %s: %s", direction.task, task.Status, task.Reason)
		}
		direction.ours = append(direction.ours, task.Steps[0].EndedAt.Sub(task.Steps[0].StartedAt))
		begin := time.Now()
		cmd := exec.CommandContext(ctx, "sh", "-c", direction.plain)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", direction.plain, err, out)
		}
		direction.bare = append(direction.bare, time.Since(begin))
	}
	return nil
}

func speed(size int64, took time.Duration) string {
	return fmt.Sprintf("%.0f MiB/s", float64(size)/(1<<20)/took.Seconds())
}

// vocabulary holds the words of the files, the frequent ones first.
type vocabulary []string

func newVocabulary() vocabulary {
	source := rand.New(rand.NewPCG(1, 1))
	words := make(vocabulary, 3000)
	for i := range words {
		word := make([]byte, 2+source.IntN(9))
		for j := range word {
			word[j] = byte('a' + source.IntN(26))
		}
		words[i] = string(word)
	}
	return words
}

// writeFile writes file n, whose content depends on n only, and returns its
// size. Of four files three are text, and one is incompressible.
func (v vocabulary) writeFile(path string, n int) (size int64, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return 0, err
	}
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	source, w := rand.New(rand.NewPCG(uint64(n), uint64(n))), bufio.NewWriter(f)
	often := rand.NewZipf(source, 1.2, 4, uint64(len(v)-1))
	for limit := int64(smallFile) << (n % fileSizes); size < limit; {
		piece := []byte(v[often.Uint64()] + " ")
		if n%4 == 3 {
			for i := range piece {
				piece[i] = byte(source.Uint32())
			}
		}
		_, _ = w.Write(piece) // Flush returns the error
		size += int64(len(piece))
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	return size, f.Close()
}
