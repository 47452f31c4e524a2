import { userInfo } from 'node:os'
import type { Command } from 'commander'
import type { Duration } from '../../base/duration.ts'
import type { LimitsApi } from '../../engine/api/limits.ts'
import { timeOf } from '../times.ts'
import { addStoreOptions, show, type ViewFlags } from '../view.ts'
import { printable } from '../words.ts'

interface ChangeFlags extends ViewFlags {
  readonly key?: string
  readonly until?: string
  readonly reason?: string
  readonly by?: string
}

interface Remark {
  readonly by: string
  readonly reason?: string
}

const EXITS = `
--until is a time in ISO 8601 (2030-01-31T12:00:00Z), or a time from now (10m). With --json: { limit, key, changed }.

Exit code: 0; 1 when there is no such store or limit, or nothing to end; 2 for a wrong option.`

/** Adds `sluice limits pause`, `resume`, `override`, `clear` and `penalize`. */
export function registerLimitChanges(limits: Command): void {
  const until = '--until <time>'
  addVerb(limits, 'pause', 'stop all further starts of a limit, or of one key')
    .option(until, 'end it by itself')
    .action(acting((api, limit, flags, remark) => api.pause(limit, flags.key, { ...untilOf(flags), ...remark })))
  addVerb(limits, 'resume', 'end a pause').action(
    acting((api, limit, { key }, remark) => api.resume(limit, key, remark)),
  )
  const override = limits.command('override').description('change the numbers of a limit, or of one key')
  withOptions(override.argument('<name>').argument('<policy>', 'the new numbers, as 5/s or "4 at once"'))
    .option(until, 'end it by itself')
    .action((limit: string, policy: string, _: unknown, command: Command) =>
      make(command, limit, (api, flags, remark) =>
        api.override(limit, flags.key, policy, { ...untilOf(flags), ...remark }),
      ),
    )
  addVerb(limits, 'clear', 'end an override').action(
    acting((api, limit, { key }, remark) => api.clearOverride(limit, key, remark)),
  )
  const penalize = limits.command('penalize').description('close a budget for a time, as a reply of 429 does')
  addStoreOptions(penalize.argument('<name>').argument('<until>', 'a time, or how long: 30s'))
    .option('--key <key>', 'the budget of this key')
    .addHelpText('after', EXITS)
    .action((limit: string, end: string, _: unknown, command: Command) =>
      make(command, limit, (api, { key }) => api.penalize(limit, key, timeOf(end))),
    )
}

function addVerb(limits: Command, name: string, description: string): Command {
  return withOptions(limits.command(name).description(description).argument('<name>'))
}

function withOptions(command: Command): Command {
  return addStoreOptions(command)
    .option('--key <key>', 'this key alone')
    .option('--reason <text>', 'why, for the record')
    .option('--by <name>', 'who, for the record (default: the user of this process)')
    .addHelpText('after', EXITS)
}

type Act = (api: LimitsApi, limit: string, flags: ChangeFlags, remark: Remark) => Promise<boolean | void>

function acting(act: Act): (limit: string, flags: ChangeFlags, command: Command) => Promise<void> {
  return (limit, _, command) => make(command, limit, (api, flags, remark) => act(api, limit, flags, remark))
}

function make(
  command: Command,
  limit: string,
  act: (api: LimitsApi, flags: ChangeFlags, remark: Remark) => Promise<boolean | void>,
): Promise<void> {
  const flags = command.optsWithGlobals<ChangeFlags>()
  return show(flags, async (store) => {
    const { LimitsApi } = await import('../../engine/api/limits.ts')
    const { readingParts } = await import('../reading-parts.ts')
    const remark = { by: flags.by ?? userName(), ...(flags.reason !== undefined && { reason: flags.reason }) }
    const changed = (await act(new LimitsApi(readingParts(store)), flags, remark)) !== false
    if (!changed) process.exitCode = 1
    const key = flags.key ?? null
    const who = printable(key === null ? limit : `${limit} for ${key}`)
    return {
      data: { limit, key, changed },
      lines: () => [changed ? `The limit ${who} was changed.` : `There was nothing to end at the limit ${who}.`],
    }
  })
}

/** A container may run its process as a user without a name. */
function userName(): string {
  try {
    return userInfo().username
  } catch {
    return `user ${process.getuid?.() ?? 'unknown'}`
  }
}

function untilOf({ until }: ChangeFlags): { readonly until?: Date | Duration } {
  return until === undefined ? {} : { until: timeOf(until) }
}
