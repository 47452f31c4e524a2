import { type Command, Option } from 'commander'
import { systemClock } from '../../base/clock.ts'
import type { QueueView } from '../../engine/api/queues.ts'
import { type JobState, STATES } from '../../jobs/job-state.ts'
import { addTally, quantile, type Tally } from '../../jobs/tally.ts'
import { groupDigits } from '../../policy/limits/policy-words.ts'
import type { Store } from '../../store/contract/store.ts'
import type { LimitTotals } from '../../store/contract/limits.ts'
import type { Paint } from '../demo/paint.ts'
import { type Column, tableOf } from '../table.ts'
import { addStoreOptions, show, type View, type ViewFlags } from '../view.ts'
import { inWords } from '../words.ts'

const STEP_MS = 10_000
const STEPS = 6

const DETAILS = `
Shows a store every second, until Ctrl-C. Starts, failures, waits and claims are those of the last full minute, which engines write
every 10 s. Limits: those with the most waiting jobs first. Below a terminal's height lines are left out.
With --json: { at, jobs, workers, active, perMinute, queues, limits }, one line each time; with --once, once.

Exit code: 0; 1 when there is no such store; 2 for a wrong option.`

/** Adds `sluice top`. */
export function registerTop(program: Command): void {
  const command = program.command('top').description('a live table of a store: jobs, queues, limits, workers')
  addStoreOptions(command)
    .addOption(new Option('--once', 'show it once'))
    .addHelpText('after', DETAILS)
    .action(({ once, ...flags }: ViewFlags & { readonly once?: true }) =>
      show({ ...flags, ...(!once && { watch: true }) }, look),
    )
}

interface Minute {
  readonly started: number
  readonly completed: number
  readonly failed: number
  /** Waits for a budget; null: no start waited. */
  readonly waitP95Ms: number | null
  /** Null: there was no claim. */
  readonly claimP99Ms: number | null
}

interface Top {
  readonly at: string
  readonly jobs: Readonly<Record<JobState, number>>
  readonly workers: number
  readonly active: number
  readonly perMinute: Minute
  readonly queues: readonly QueueView[]
  readonly limits: readonly (Omit<LimitTotals, 'nextStartUs'> & { readonly nextStart: string | null })[]
}

async function look(store: Store): Promise<View> {
  const top = await topOf(store)
  return { data: top, lines: (paint) => linesOf(top, paint) }
}

async function topOf(store: Store): Promise<Top> {
  const { QueuesApi } = await import('../../engine/api/queues.ts')
  const { readingParts } = await import('../reading-parts.ts')
  const queues = await new QueuesApi(readingParts(store)).list()
  const sumOf = (state: JobState): number => queues.reduce((sum, { jobs }) => sum + jobs[state], 0)
  const workers = (await store.workers()).filter(({ alive }) => alive)
  const names = (await store.limits()).map(({ name }) => name)
  const totals = await store.limitTotals(names)
  return {
    at: new Date(systemClock.now()).toISOString(),
    jobs: Object.fromEntries(STATES.map((state) => [state, sumOf(state)])) as Record<JobState, number>,
    workers: workers.length,
    active: workers.reduce((sum, { active }) => sum + active, 0),
    perMinute: await minuteOf(store),
    queues,
    limits: totals
      .toSorted((a, b) => b.waiting - a.waiting || (a.limit < b.limit ? -1 : 1))
      .map(({ nextStartUs, ...rest }) => ({
        ...rest,
        nextStart: nextStartUs === null ? null : new Date(wallMsOf(store, nextStartUs)).toISOString(),
      })),
  }
}

function wallMsOf(store: Store, storeUs: number): number {
  return systemClock.now() + (storeUs - store.nowUs()) / 1000
}

/** The last full minute: the step at work is not written yet. */
async function minuteOf(store: Store): Promise<Minute> {
  const toMs = Math.floor(systemClock.now() / STEP_MS) * STEP_MS
  const sumOf = async (part: string): Promise<Tally> => {
    const sum: Tally = {}
    const rows = await store.readSeries({ step: STEP_MS, part, fromMs: toMs - STEPS * STEP_MS, toMs })
    for (const { tallies } of rows) addTally(sum, tallies['all'] ?? {})
    return sum
  }
  const [all, claims] = [await sumOf('all'), await sumOf('claims')]
  const { s = 0, c = 0, f = 0, h } = all
  return { started: s, completed: c, failed: f, waitP95Ms: quantile(h, 0.95), claimP99Ms: quantile(claims.r, 0.99) }
}

const QUEUES: readonly Column[] = [
  { head: 'queue' },
  { head: 'waiting', right: true },
  { head: 'running', right: true },
  { head: 'later', right: true },
  { head: 'failed', right: true },
  { head: 'workers', right: true },
]
const LIMITS: readonly Column[] = [
  { head: 'limit' },
  { head: 'waiting', right: true },
  { head: 'keys held', right: true },
  { head: 'next start', right: true },
  { head: 'running', right: true },
]

function linesOf({ at, jobs, workers, active, perMinute, queues, limits }: Top, paint: Paint): string[] {
  const { started, completed, failed, waitP95Ms, claimP99Ms } = perMinute
  const n = groupDigits
  const atMs = Date.parse(at)
  const times = [
    ...(waitP95Ms === null ? [] : [`waits p95 ${inWords(waitP95Ms)}`]),
    ...(claimP99Ms === null ? [] : [`claims p99 ${inWords(claimP99Ms)}`]),
  ]
  const next = (nextStart: string | null): string => (nextStart === null ? '' : inWords(Date.parse(nextStart) - atMs))
  return [
    `${paint('bold', `${n(jobs.available)} waiting, ${n(jobs.active)} running`)}, ${n(jobs.scheduled + jobs.retryable)} later, ${n(jobs.discarded)} failed; ${n(workers)} workers with ${n(active)} jobs`,
    `last minute: ${n(started)} started, ${n(completed)} completed, ${failed > 0 ? paint('red', `${n(failed)} failed`) : '0 failed'}${times.map((each) => `; ${each}`).join('')}`,
    '',
    ...tableOf(QUEUES, queues.map(queueRow), paint),
    ...(limits.length === 0 ? [] : ['']),
    ...(limits.length === 0
      ? []
      : tableOf(
          LIMITS,
          limits.map((each) => [each.limit, n(each.waiting), n(each.heldKeys), next(each.nextStart), n(each.active)]),
          paint,
        )),
  ]
}

function queueRow({ name, paused, jobs, workers }: QueueView): string[] {
  const later = jobs.scheduled + jobs.retryable + jobs.pending
  const figures = [jobs.available, jobs.active, later, jobs.discarded, workers].map(groupDigits)
  return [paused ? `${name} (paused)` : name, ...figures]
}
