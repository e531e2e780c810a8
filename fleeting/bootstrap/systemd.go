package bootstrap

// unitName names the service of an executor on a host with systemd.
func unitName(p hostPaths) string { return "drover-" + p.executor + ".service" }

func unitPath(p hostPaths) string { return "/etc/systemd/system/" + unitName(p) }

// unit is the service definition. Tasks outlive the service: they have their
// own supervisors, and the next process adopts them. systemd must therefore
// kill only the executor.
func unit(p hostPaths) string {
	return `[Unit]
Description=Drover executor ` + p.executor + ` of a fleet
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart=` + p.drover + ` start executor --config ` + p.config + `
WorkingDirectory=` + p.dir + `
KillMode=process
KillSignal=SIGTERM
TimeoutStopSec=1min
Restart=always
RestartSec=2s
RestartPreventExitStatus=` + exitRemoved + `
UMask=0077

[Install]
WantedBy=multi-user.target
`
}

// The stamp is written last: an earlier stamp would hide that the start failed.
func startSystemd(p hostPaths) string {
	return `if systemctl is-active --quiet ` + unitName(p) + ` && [ "$(cat stamp 2> /dev/null)" = STAMP ]; then exit 0; fi
rm -f stamp
systemctl daemon-reload
systemctl enable --quiet ` + unitName(p) + `
systemctl restart ` + unitName(p) + `
echo STAMP > stamp
echo ` + startedOutput + `
`
}

func stopSystemd(p hostPaths) string {
	return `if [ -e ` + unitPath(p) + ` ]; then
  systemctl disable --quiet --now ` + unitName(p) + ` || exit
  rm -f ` + unitPath(p) + `
  systemctl daemon-reload
fi
`
}
