package temporalite

import (
	"context"
	"fmt"
	"net"
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"

	"github.com/drover-run/drover/internal/freeport"
)

// clusterName is the server's name for its own cluster.
const clusterName = "active"

// newConfig returns the configuration of a server with all four services on
// loopback, with one history shard in one SQLite file. The membership is static:
// the gossip protocol would first try the ports of an earlier process, which makes
// a restart after a kill slow.
func newConfig(ctx context.Context, file string, frontend *net.TCPAddr) (*config.Config, map[primitives.ServiceName]static.Hosts, error) {
	services := map[string]config.Service{}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for _, name := range []primitives.ServiceName{
		primitives.FrontendService, primitives.HistoryService, primitives.MatchingService, primitives.WorkerService,
	} {
		rpc := config.RPC{BindOnIP: "127.0.0.1"}
		if name == primitives.FrontendService {
			rpc.BindOnIP, rpc.GRPCPort = frontend.IP.String(), frontend.Port
		} else {
			port, err := freeport.On(ctx, rpc.BindOnIP)
			if err != nil {
				return nil, nil, err
			}
			rpc.GRPCPort = port
		}
		services[string(name)] = config.Service{RPC: rpc}
		address := fmt.Sprintf("%s:%d", rpc.BindOnIP, rpc.GRPCPort)
		hosts[name] = static.Hosts{All: []string{address}, Self: address}
	}
	frontendAddress := hosts[primitives.FrontendService].Self
	cfg := &config.Config{
		Services: services,
		Persistence: config.Persistence{
			DefaultStore:     sqliteplugin.PluginName,
			VisibilityStore:  sqliteplugin.PluginName,
			NumHistoryShards: 1,
			DataStores: map[string]config.DataStore{
				sqliteplugin.PluginName: {SQL: &config.SQL{
					PluginName:   sqliteplugin.PluginName,
					DatabaseName: file,
					ConnectAttributes: map[string]string{
						// Calls that the server has accepted must survive a loss of power: the
						// outbox deletes a row once the server has accepted it (ADR 11).
						"mode": "rwc", "journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000",
					},
				}},
			},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontendAddress},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: frontendAddress},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: "disabled"},
			Visibility: config.VisibilityArchival{State: "disabled"},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
		}},
	}
	cfg.Global.Membership.MaxJoinDuration = 30 * time.Second
	cfg.Global.Membership.BroadcastAddress = "127.0.0.1"
	return cfg, hosts, nil
}

// tuning raises the server's rate limits, which are meant for shared clusters.
// With one history shard, each transfer from history to a task queue otherwise
// waits for a limiter of 20 polls a second, and a workflow with one activity takes
// 100 ms instead of 11 ms.
func tuning() dynamicconfig.Client {
	const polls, calls = 10_000, 100_000
	values := dynamicconfig.StaticClient{}
	for _, key := range []dynamicconfig.GenericSetting{
		dynamicconfig.TransferProcessorMaxPollRPS, dynamicconfig.TimerProcessorMaxPollRPS,
		dynamicconfig.VisibilityProcessorMaxPollRPS, dynamicconfig.OutboundProcessorMaxPollRPS,
	} {
		values[key.Key()] = polls
	}
	for _, key := range []dynamicconfig.GenericSetting{
		dynamicconfig.FrontendRPS, dynamicconfig.FrontendMaxNamespaceRPSPerInstance,
		dynamicconfig.FrontendPersistenceMaxQPS, dynamicconfig.HistoryRPS, dynamicconfig.HistoryPersistenceMaxQPS,
		dynamicconfig.MatchingRPS, dynamicconfig.MatchingPersistenceMaxQPS, dynamicconfig.WorkerPersistenceMaxQPS,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance, dynamicconfig.VisibilityPersistenceMaxReadQPS,
		dynamicconfig.VisibilityPersistenceMaxWriteQPS,
	} {
		values[key.Key()] = calls
	}
	// With one partition per queue, a task is always matched with a waiting poller
	// at once.
	values[dynamicconfig.MatchingNumTaskqueueReadPartitions.Key()] = 1
	values[dynamicconfig.MatchingNumTaskqueueWritePartitions.Key()] = 1
	values[dynamicconfig.MatchingEnableFairness.Key()] = true
	// The server looks up the scheduling event of each activity that starts or
	// times out. If the event is not in its cache, the server reads and decodes all
	// events of the workflow task that scheduled the activity. With the default of
	// 512 KiB, a task in a run of 10,000 costs nearly twice as much as in one of
	// 1,000.
	values[dynamicconfig.EventsCacheMaxSizeBytes.Key()] = 32 << 20
	return values
}
