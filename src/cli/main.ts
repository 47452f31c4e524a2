#!/usr/bin/env node
// The command line: one file per command in commands/, each exporting one function that adds it to the program.
import '../base/supported-node.ts'
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { checkCalls } from './checked-call.ts'
import { usageLine } from './misspelt.ts'
import { registerCompletion } from './commands/completion.ts'
import { registerConfig } from './commands/config.ts'
import { registerDashboard } from './commands/dashboard.ts'
import { registerDemo } from './commands/demo.ts'
import { registerDoctor } from './commands/doctor.ts'
import { registerEnqueue } from './commands/enqueue.ts'
import { registerFlows } from './commands/flows.ts'
import { registerForecast } from './commands/forecast.ts'
import { registerHelp } from './commands/help.ts'
import { registerReplay } from './commands/replay.ts'
import { registerJobs } from './commands/jobs.ts'
import { registerLimits } from './commands/limits.ts'
import { registerMigrate } from './commands/migrate.ts'
import { registerPresets } from './commands/presets.ts'
import { registerQueues } from './commands/queues.ts'
import { registerSchedules } from './commands/schedules.ts'
import { registerServe } from './commands/serve.ts'
import { registerTop } from './commands/top.ts'
import { registerTransfer } from './commands/transfer.ts'
import { registerWorkers } from './commands/workers.ts'
import { registerWorkflows } from './commands/workflows.ts'

// To add a command: import its register function and list it here, in the order that --help shows.
const commands: readonly ((program: Command) => void)[] = [
  registerLimits,
  registerJobs,
  registerEnqueue,
  registerQueues,
  registerWorkers,
  registerFlows,
  registerSchedules,
  registerForecast,
  registerReplay,
  registerWorkflows,
  registerPresets,
  registerTransfer,
  registerTop,
  registerDoctor,
  registerMigrate,
  registerServe,
  registerConfig,
  registerDashboard,
  registerDemo,
  registerCompletion,
  registerHelp,
]

function packageVersion(): string {
  // The same two steps up from src/cli and from dist/cli, so one path serves both.
  const manifest: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return (manifest as { version: string }).version
}

const program = new Command('sluice')
  .description('A durable job and workflow engine for TypeScript that never exceeds a budget and never wastes one.')
  .version(packageVersion())
  // A usage error exits with 2, on every command; 1 reports a finding.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .configureOutput({ outputError: (text, write) => write(usageLine(text, program)) })
// Standard output closes when its reader has enough (`| head`). A command that writes on and on looks for itself.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') return
  process.stderr.write(`error cli.usage: Standard output cannot be written: ${error.message}. It is not complete.\n`)
  process.exit(2)
})
for (const register of commands) register(program)
checkCalls(program)
await program.parseAsync()
