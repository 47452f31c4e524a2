import { createWriteStream, openSync, rmSync } from 'node:fs'
import { once } from 'node:events'
import { constants } from 'node:os'
import { finished } from 'node:stream/promises'
import { type Command, Option } from 'commander'
import { SluiceError } from '../../base/errors.ts'
import { messageOf } from '../../base/thrown.ts'
import { groupDigits } from '../../policy/limits/policy-words.ts'
import type { Store } from '../../store/contract/store.ts'
import { confirm, progressBar } from '../ask.ts'
import { addStoreOptions, show, type View, type ViewFlags } from '../view.ts'
import { printable } from '../words.ts'

const EXPORT = `
Writes one JSON object a line: limits, schedules, and the jobs that wait (available, scheduled, retryable, pending), the newest
first. Left out are running jobs, jobs of flows, and those whose limits are unreadable or not resolved yet: stop the engines first.
A job keeps its id, limits, unique key, time and payload; it begins again with its first attempt. With --json:
{ limits, schedules, jobs, leftOut }.

Exit code: 0; 1 when there is no such store; 2 for a wrong option, or a file that exists or that the disk has no room for; 130 after
Ctrl-C and 143 after SIGTERM, which remove the file.`
const IMPORT = `
Reads the lines of sluice export (- is standard input) and stores them. Every line is checked first: a bad one is named by its number,
and then nothing is stored. A limit or a schedule that the store has with another definition is never replaced: with
--duplicates refuse nothing is stored, with skip the store keeps its own. With --json: { limits, schedules, jobs, skipped, kept }.

Exit code: 0; 1 when there is no such store, when it has one of the jobs or another definition, or when a limit is unknown; 2 for a wrong option or line.`

/** Adds `sluice export` and `sluice import`. */
export function registerTransfer(program: Command): void {
  addStoreOptions(program.command('export').description('write the limits, schedules and waiting jobs of a store'))
    .addOption(new Option('--to <file>', 'a new file (default: standard output)'))
    .addHelpText('after', EXPORT)
    .action(({ to, ...flags }: ViewFlags & { readonly to?: string }) => exportTo(flags, to))
  addStoreOptions(program.command('import').description('store the lines of sluice export'))
    .argument('<file>', 'a file, or - for standard input')
    .addOption(
      new Option('--duplicates <how>', 'what to do with jobs that the store has, and with other definitions')
        .choices(['refuse', 'skip'])
        .default('refuse'),
    )
    .option('--dry-run', 'only check and count')
    .option('--yes', 'do not ask')
    .addHelpText('after', IMPORT)
    .action((file: string, flags: ImportFlags) => importFrom(file, flags))
}

interface ImportFlags extends ViewFlags {
  readonly duplicates: 'refuse' | 'skip'
  readonly dryRun?: true
  readonly yes?: true
}

function exportTo(flags: ViewFlags, to: string | undefined): Promise<void> {
  return show(flags, async (store): Promise<View> => {
    const { writeLines } = await import('../transfer/write-lines.ts')
    const out = to === undefined ? process.stdout : createWriteStream(to, { fd: newFile(to) })
    // Half an export looks like a whole one, and stands in the way of the next.
    const remove = (): void => {
      if (to !== undefined) rmSync(to, { force: true })
    }
    const interrupted = (signal: 'SIGINT' | 'SIGTERM'): never => {
      remove()
      process.exit(128 + constants.signals[signal])
    }
    process.once('SIGINT', interrupted).once('SIGTERM', interrupted)
    const end = { error: null as NodeJS.ErrnoException | null }
    out.on('error', (error: NodeJS.ErrnoException) => (end.error = error))
    const done = await writeLines(store, async (line) => {
      if (end.error) throw end.error
      if (!out.write(`${JSON.stringify(line)}\n`)) await once(out, 'drain')
    }).catch((error: unknown) => {
      remove()
      if (error !== end.error) throw error
      return null
    })
    if (done && to !== undefined) await finished(out.end()).catch(remove)
    process.off('SIGINT', interrupted).off('SIGTERM', interrupted)
    // Standard output closes when its reader has enough, as `head` has.
    if (end.error && to !== undefined)
      throw new SluiceError(
        'cli.usage',
        `${to} cannot be written: ${end.error.message}. The export is not complete, and its file was removed.`,
        { cause: end.error },
      )
    if (done === null) return { data: null, lines: () => [], silent: true }
    const { limits, schedules, jobs, leftOut } = done
    const words = `${groupDigits(limits)} limits, ${groupDigits(schedules)} schedules and ${groupDigits(jobs)} jobs were exported; ${groupDigits(leftOut)} jobs were left out.`
    // The lines themselves are on standard output.
    if (to === undefined) process.stderr.write(`${words}\n`)
    return { data: done, lines: () => [words], ...(to === undefined && { silent: true }) }
  })
}

/** Creates a file: an export of yesterday must not be lost by the one of today. @throws {SluiceError} `cli.usage` */
function newFile(path: string): number {
  try {
    return openSync(path, 'wx')
  } catch (cause) {
    throw new SluiceError('cli.usage', `${path} cannot be written: ${messageOf(cause)}. Expected a new file.`, {
      cause,
    })
  }
}

function importFrom(file: string, flags: ImportFlags): Promise<void> {
  const { duplicates, dryRun = false, yes, ...rest } = flags
  return show(rest, async (store: Store): Promise<View> => {
    const { importLines, linesOf } = await import('../transfer/read-lines.ts')
    const lines = await linesOf(file)
    const planned = await importLines(store, lines, { duplicates, dryRun: true })
    if (!dryRun && planned.jobs + planned.limits + planned.schedules > 0)
      await confirm(`${keptOf(planned.kept, 'keeps')}Import ${wordsOf(planned)}?`, {
        ...(yes && { yes }),
        counts: true,
      })
    const bar = progressBar()
    const done = dryRun
      ? planned
      : await importLines(store, lines, {
          duplicates,
          dryRun,
          onProgress: (some, all) => bar.draw(some, all),
        }).finally(() => bar.end())
    const skipped = done.skipped > 0 ? ` ${groupDigits(done.skipped)} jobs were skipped: the store has them.` : ''
    const kept = keptOf(done.kept, dryRun ? 'keeps' : 'kept').trim()
    return {
      data: done,
      lines: () => [
        `${wordsOf(done)} ${dryRun ? 'would be' : 'were'} imported.${skipped}`,
        ...(kept === '' ? [] : [kept]),
      ],
    }
  })
}

function wordsOf({ limits, schedules, jobs }: { limits: number; schedules: number; jobs: number }): string {
  return `${groupDigits(limits)} limits, ${groupDigits(schedules)} schedules and ${groupDigits(jobs)} jobs`
}

/** Names the limits and schedules that the import leaves out. */
function keptOf(names: readonly string[], verb: 'keeps' | 'kept'): string {
  return names.length === 0 ? '' : `The store ${verb} its own definition of ${printable(names.join(', '))}.\n`
}
