// Command bench measures Drover on the shell driver, through the HTTP API,
// beside a bare Temporal workflow with one no-op activity on the same embedded
// server in the same run. It prints a table; `make bench` runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	log.SetFlags(0)
	quick := flag.Bool("quick", false, "a tenth of the work, to check that the benchmark itself runs")
	only := flag.String("only", "", "measure only the rows whose names contain this")
	drover := flag.String("drover", "bin/drover", "the drover binary to measure")
	stored := flag.String("stored", "", "initial records: an SQLite file that test/bench/million created; the benchmark uses a copy")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := measure(ctx, *drover, *stored, *only, *quick)
	stop()
	if err != nil {
		log.Fatal("bench: ", err)
	}
}

func measure(ctx context.Context, binary, stored, only string, quick bool) error {
	scale := 1
	if quick {
		scale = 10
	}
	dev, err := startDev(ctx, binary, stored)
	if err != nil {
		return err
	}
	defer dev.stop()
	bare, err := startBare(ctx, dev.temporal)
	if err != nil {
		return err
	}
	defer bare.stop()
	table := &table{}
	for _, row := range rows(scale) {
		if !strings.Contains(row.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring: %s\n", row.name)
		if err := row.measure(ctx, dev, bare, table); err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
	}
	table.print(os.Stdout, dev)
	return nil
}
