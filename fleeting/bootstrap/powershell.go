package bootstrap

import (
	"encoding/base64"
	"encoding/binary"
	"path"
	"strings"
	"unicode/utf16"
)

// powershell is a host with Windows and its own OpenSSH server.
type powershell struct{}

var _ system = powershell{}

// line encodes the script, because the meaning of quotes depends on the
// configured shell of the server.
func (powershell) line(script string, _ bool) string {
	units := utf16.Encode([]rune("$ErrorActionPreference = 'Stop'; $ProgressPreference = 'SilentlyContinue'\n" + script))
	text := make([]byte, 0, 2*len(units))
	for _, unit := range units {
		text = binary.LittleEndian.AppendUint16(text, unit)
	}
	return "powershell.exe -NoProfile -NonInteractive -EncodedCommand " + base64.StdEncoding.EncodeToString(text)
}

// literal quotes a text as one string.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func (powershell) join(elements ...string) string {
	return strings.ReplaceAll(path.Join(elements...), "/", `\`)
}

func (powershell) probe() string {
	return `'os=windows'
"arch=$env:PROCESSOR_ARCHITECTURE"
"home=$env:USERPROFILE"
$me = New-Object Security.Principal.WindowsPrincipal([Security.Principal.WindowsIdentity]::GetCurrent())
if ($me.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)) { 'root=true' }`
}

func (powershell) digest(path string) string {
	return "if (Test-Path -LiteralPath " + literal(path) + ") { (Get-FileHash -Algorithm SHA256 -LiteralPath " + literal(path) + ").Hash.ToLower() }"
}

// put restricts a secret file to the system and to administrators before it
// writes any content.
func (powershell) put(f remoteFile) string {
	temp := f.dir + `\` + f.temp
	protect := ""
	if f.mode == "0600" {
		protect = "icacls.exe " + literal(temp) + " /inheritance:r /grant:r '*S-1-5-18:F' '*S-1-5-32-544:F' | Out-Null\n"
	}
	return `New-Item -ItemType Directory -Force -Path ` + literal(f.dir) + ` | Out-Null
Get-ChildItem -Force -Path ` + literal(f.dir) + ` -Filter ` + literal(tempPrefix(f)+"*") + ` | Remove-Item -Force
New-Item -ItemType File -Path ` + literal(temp) + ` | Out-Null
` + protect + `$out = [IO.File]::OpenWrite(` + literal(temp) + `)
try { [Console]::OpenStandardInput().CopyTo($out) } finally { $out.Close() }
$got = (Get-FileHash -Algorithm SHA256 -LiteralPath ` + literal(temp) + `).Hash.ToLower()
if ($got -ne '` + f.digest + `') {
  Remove-Item -Force -LiteralPath ` + literal(temp) + `
  [Console]::Error.WriteLine("it arrived as $got, not ` + f.digest + `")
  exit 65
}
Move-Item -Force -LiteralPath ` + literal(temp) + ` -Destination ` + literal(f.path)
}

func (powershell) files(hostPaths) []remoteFile { return nil }

// task names the scheduled task of an executor. It is no service, because a
// service must implement the protocol of the service manager.
func task(p hostPaths) string { return "drover-" + p.executor }

func (powershell) start(p hostPaths, stamp string) string {
	name, file := literal(task(p)), literal(p.dir+`\stamp`)
	return `$task = Get-ScheduledTask -TaskName ` + name + ` -ErrorAction SilentlyContinue
if ($task -and $task.State -eq 'Running' -and (Test-Path ` + file + `) -and (Get-Content ` + file + `) -eq '` + stamp + `') { exit 0 }
if (Test-Path ` + file + `) { Remove-Item -Force ` + file + ` }
` + endTask(p) + `$action = New-ScheduledTaskAction -Execute ` + literal(p.drover) + ` -Argument ` + literal("start executor --config "+p.config) + ` -WorkingDirectory ` + literal(p.dir) + `
$settings = New-ScheduledTaskSettingsSet -ExecutionTimeLimit ([TimeSpan]::Zero) -RestartCount 999 -RestartInterval (New-TimeSpan -Minutes 1) -AllowStartIfOnBatteries -DontStopIfGoingOnBatteries
$who = New-ScheduledTaskPrincipal -UserId 'S-1-5-18' -LogonType ServiceAccount -RunLevel Highest
Register-ScheduledTask -Force -TaskName ` + name + ` -Action $action -Settings $settings -Principal $who -Trigger (New-ScheduledTaskTrigger -AtStartup) | Out-Null
Start-ScheduledTask -TaskName ` + name + `
Set-Content -Path ` + file + ` -Value '` + stamp + `'
'` + startedOutput + `'`
}

// endTask ends only the executor: tasks have their own supervisors.
func endTask(p hostPaths) string {
	return `if (Get-ScheduledTask -TaskName ` + literal(task(p)) + ` -ErrorAction SilentlyContinue) {
  Stop-ScheduledTask -TaskName ` + literal(task(p)) + `
  Unregister-ScheduledTask -Confirm:$false -TaskName ` + literal(task(p)) + `
}
Get-CimInstance Win32_Process -Filter "Name = 'drover-agent.exe' OR Name = 'drover.exe'" | Where-Object { $_.CommandLine -like ` + literal("*"+p.config) + ` } | ForEach-Object { Stop-Process -Force -Id $_.ProcessId }
`
}

func (powershell) stop(p hostPaths) string {
	return endTask(p) + `foreach ($file in ` + literal(p.token) + `, ` + literal(p.config) + `, ` + literal(p.dir+`\stamp`) + `) {
  if (Test-Path -LiteralPath $file) { Remove-Item -Force -LiteralPath $file }
}`
}

func (powershell) logs(p hostPaths) string {
	return `Get-ScheduledTaskInfo -TaskName ` + literal(task(p)) + ` | Format-List LastRunTime, LastTaskResult`
}
