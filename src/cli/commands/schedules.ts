import type { Command } from 'commander'
import { SluiceError } from '../../base/errors.ts'
import type { SchedulesApi, ScheduleView } from '../../engine/api/schedules.ts'
import type { Store } from '../../store/contract/store.ts'
import { type Column, tableOf } from '../table.ts'
import { confirm } from '../ask.ts'
import { addStoreOptions, addViewOptions, show, type View, type ViewFlags } from '../view.ts'
import { groupDigits, period } from '../../policy/limits/policy-words.ts'
import { inWords, printable } from '../words.ts'

const DETAILS = `
Without a name: every schedule of the store, ended ones too. With a name: that one.

  often   the distance of its due times, or its cron expression with the time zone
  next    when the next occurrence is due; "paused"; "ended": by its runs or its until
  last    when the last occurrence that became a job was due
  runs    occurrences that became jobs, of so many if the series has an end

Exit code: 0; 1 when there is no such store or schedule; 2 for a wrong option.`

const CHANGES = `
Exit code: 0; 1 when there is no such store or schedule; 2 for a wrong option, or without --yes where no person can be asked.`

const PAUSE_WORDS = {
  pause: 'make no further jobs of a schedule, also after a restart; its waiting jobs stay',
  resume: 'end a pause; what was due meanwhile is skipped, or caught up with by onMissed: catchUp',
} as const

/** Adds `sluice schedules`. */
export function registerSchedules(program: Command): void {
  const command = program
    .command('schedules')
    .description('recurring work: how often, what comes next, what came last')
    .argument('[name]', 'one schedule')
  // So that the commands below it may have options of the same name.
  command.enablePositionalOptions()
  const remove = command.command('rm').description('end and delete a schedule; its waiting jobs stay')
  addStoreOptions(remove.argument('<name>'))
    .option('--yes', 'do not ask')
    .addHelpText('after', CHANGES)
    .action((name: string, _: unknown, self: Command) => removed(name, self))
  for (const verb of ['pause', 'resume'] as const)
    addStoreOptions(command.command(verb).description(PAUSE_WORDS[verb]).argument('<name>'))
      .addHelpText('after', CHANGES)
      .action((name: string, _: unknown, self: Command) => setPaused(name, verb, self))
  const once = command.command('run').description('store one job of a schedule now; its due times stay')
  addStoreOptions(once.argument('<name>'))
    .addHelpText('after', CHANGES)
    .action((name: string, _: unknown, self: Command) => runNow(name, self))
  addViewOptions(command)
    .addHelpText('after', DETAILS)
    .action((name: string | undefined, flags: ViewFlags) => show(flags, (store) => look(store, name)))
}

function removed(name: string, command: Command): Promise<void> {
  const { yes, ...flags } = command.optsWithGlobals<ViewFlags & { readonly yes?: true }>()
  return show(flags, async (store) => {
    const schedules = await schedulesOf(store)
    if (!(await schedules.get(name))) throw unknown(name)
    await confirm(`Delete the schedule ${printable(name)}?`, { ...(yes && { yes }) })
    await schedules.remove(name)
    return { data: { name, removed: true }, lines: () => [`The schedule ${printable(name)} was deleted.`] }
  })
}

function runNow(name: string, command: Command): Promise<void> {
  return show(command.optsWithGlobals<ViewFlags>(), async (store) => {
    const id = await (await schedulesOf(store)).run(name)
    if (id === null) throw unknown(name)
    return { data: { name, id }, lines: () => [`The job ${id} of the schedule ${printable(name)} was stored.`] }
  })
}

function setPaused(name: string, verb: keyof typeof PAUSE_WORDS, command: Command): Promise<void> {
  return show(command.optsWithGlobals<ViewFlags>(), async (store) => {
    const found = await (await schedulesOf(store))[verb](name)
    if (!found) throw unknown(name)
    const words = { active: 'is active', paused: 'is paused', completed: 'has ended' }[found.state]
    return { data: found, lines: () => [`The schedule ${printable(name)} ${words}.`] }
  })
}

async function schedulesOf(store: Store): Promise<SchedulesApi> {
  const { SchedulesApi } = await import('../../engine/api/schedules.ts')
  const { readingParts } = await import('../reading-parts.ts')
  return new SchedulesApi(readingParts(store))
}

function unknown(name: string): SluiceError {
  return new SluiceError(
    'schedule.unknown',
    `No schedule ${name} is registered in this store; sluice schedules lists those that are.`,
  )
}

async function look(store: Store, name: string | undefined): Promise<View> {
  const nowMs = store.nowUs() / 1000
  const all = await (await schedulesOf(store)).list()
  const found = name === undefined ? all : all.filter((each) => each.name === name)
  if (name !== undefined && found.length === 0) throw unknown(name)
  return {
    data: found,
    lines: (paint) =>
      found.length === 0
        ? ['No schedule is registered in this store.']
        : tableOf(
            COLUMNS,
            found.map((each) => row(each, nowMs)),
            paint,
          ),
  }
}

const COLUMNS: readonly Column[] = [
  { head: 'schedule' },
  { head: 'task' },
  { head: 'queue' },
  { head: 'often' },
  { head: 'next', right: true },
  { head: 'last', right: true },
  { head: 'runs', right: true },
]

function row(
  { name, task, queue, cron, timezone, every, state, nextAt, lastAt, runs, maxRuns }: ScheduleView,
  nowMs: number,
): string[] {
  return [
    name,
    task,
    queue,
    cron === null ? `every ${period((every ?? 0) * 1000)}` : `${cron} (${timezone})`,
    nextAt === null
      ? state === 'paused'
        ? 'paused'
        : 'ended'
      : `in ${inWords(nextAt.getTime() - nowMs)}`.replace('in now', 'now'),
    lastAt === null ? '' : `${inWords(nowMs - lastAt.getTime())} ago`.replace('now ago', 'now'),
    maxRuns === null ? groupDigits(runs) : `${groupDigits(runs)} of ${groupDigits(maxRuns)}`,
  ]
}
