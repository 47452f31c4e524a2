import { waitLists } from '../../engine/api/wait-lists.ts'
import type { Command } from 'commander'
import { systemClock } from '../../base/clock.ts'
import { addTally, type Tally } from '../../jobs/tally.ts'
import type { Store } from '../../store/contract/store.ts'
import { type Facts, type Finding, findingsOf } from '../doctor/findings.ts'
import { addStoreOptions, show, type View, type ViewFlags } from '../view.ts'

const STEP_MS = 10_000
const LATELY_MS = 600_000
const WAIT_LISTS = 10_000

const DETAILS = `
It looks at the version of the tables, the database, its clock, the claims of the last 10 minutes, dead rows, long
transactions, locks, the write-ahead log, queues that no worker serves, and limits that are unknown or unreadable. It
changes nothing. With --json: { findings, facts }.

Exit code: 0 when all is well; 1 when there is a warning or an error, or no such store; 2 for a wrong option.`

/** Adds `sluice doctor`. */
export function registerDoctor(program: Command): void {
  const command = program.command('doctor').description('look for trouble in a store, and say what to do')
  addStoreOptions(command)
    .addHelpText('after', DETAILS)
    .action((flags: ViewFlags) => show(flags, examine))
}

async function examine(store: Store): Promise<View> {
  const facts = await factsOf(store)
  const findings = findingsOf(facts)
  if (findings.some(({ severity }) => severity !== 'ok')) process.exitCode = 1
  return {
    data: { findings, facts },
    lines: (paint) =>
      findings.flatMap((finding) => [
        `${paint(COLOURS[finding.severity], finding.severity.padEnd(7))}  ${finding.check.padEnd(12)}  ${finding.words}`,
        ...(finding.action === null ? [] : [`${' '.repeat(23)}→ ${finding.action}`]),
      ]),
  }
}

const COLOURS: Readonly<Record<Finding['severity'], 'green' | 'yellow' | 'red'>> = {
  ok: 'green',
  warning: 'yellow',
  error: 'red',
}

async function factsOf(store: Store): Promise<Facts> {
  const { QueuesApi } = await import('../../engine/api/queues.ts')
  const { readingParts } = await import('../reading-parts.ts')
  const nowMs = systemClock.now()
  const rows = await store.readSeries({ step: STEP_MS, part: 'claims', fromMs: nowMs - LATELY_MS, toMs: nowMs + 1 })
  const claims: Tally = {}
  for (const { tallies } of rows) addTally(claims, tallies['all'] ?? {})
  return {
    schema: await store.schema(),
    diagnosis: await store.diagnose(),
    queues: await new QueuesApi(readingParts(store)).list(),
    claims,
    throttled: (await waitLists(store, WAIT_LISTS)).rows,
    limits: (await store.limits()).map(({ name }) => name),
    unreadable: (await store.unreadable()).map(({ kind, name }) => `the ${kind} ${name}`),
  }
}
