/** The shared parts of the reading commands: open a store to read, print a table or JSON, once or every second. */
import { type Command, Option } from 'commander'
import { systemClock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import { quote } from '../base/options.ts'
import { isName, LONGEST_NAME, withoutPassword } from '../base/text.ts'
import type { Store } from '../store/contract/store.ts'
import { type Paint, paintFor } from './demo/paint.ts'
import { printable } from './words.ts'

/** The options that every such command takes. */
export interface ViewFlags {
  readonly store?: string
  readonly json?: true
  readonly watch?: true
}

/** The result of a command: as data, and as lines for a person. */
export interface View {
  readonly data: unknown
  /** Standard output has the answer already. */
  readonly silent?: true
  lines(paint: Paint): string[]
}

const DEFAULT_STORE = 'sqlite:./sluice.db'
const WATCH_EVERY_MS = 1000
const CLEAR_BELOW = '\u001B[0J'

/** Adds `--store` and `--json`, for a command that changes something. */
export function addStoreOptions(command: Command): Command {
  return command
    .addOption(new Option('--store <url>', `the store (default: SLUICE_STORE, else ${DEFAULT_STORE})`))
    .addOption(new Option('--json', 'print JSON'))
}

/** Adds `--store`, `--json` and `--watch`. */
export function addViewOptions(command: Command): Command {
  return command
    .addOption(new Option('--store <url>', `the store to read (default: SLUICE_STORE, else ${DEFAULT_STORE})`))
    .addOption(new Option('--json', 'print JSON; with --watch one line each time'))
    .addOption(new Option('--watch', 'show it again every second, until Ctrl-C'))
}

/** Prints what `look` finds in the store, once or until Ctrl-C. Errors go to standard error, with an exit code. */
export async function show(flags: ViewFlags, look: (store: Store) => Promise<View>): Promise<void> {
  await reportErrors(async () => {
    const { openExisting } = await import('../store/open.ts')
    const store = await openExisting(flags.store ?? (process.env['SLUICE_STORE'] || DEFAULT_STORE), systemClock)
    try {
      await print(flags, () => look(store))
    } finally {
      await store.close()
    }
  })
}

/** Prints what needs no store, once. */
export function showOnce(flags: ViewFlags, look: () => View): Promise<void> {
  return reportErrors(() => print({ ...flags, watch: undefined }, async () => look()))
}

/** Prints a finished view. */
export function showView(flags: ViewFlags, view: View): Promise<void> {
  return print({ ...flags, watch: undefined }, async () => view)
}

async function print(
  flags: { json?: true | undefined; watch?: true | undefined },
  look: () => Promise<View>,
): Promise<void> {
  const out = process.stdout
  const live = flags.watch === true && !flags.json && out.isTTY && process.env['TERM'] !== 'dumb'
  const paint = paintFor(out.isTTY && !process.env['NO_COLOR'])
  const interrupt = interruption(flags.watch === true)
  let drawn = 0
  for (let first = true; ; first = false) {
    const view = await look()
    if (view.silent) return
    if (flags.json) out.write(`${JSON.stringify(view.data, null, flags.watch ? 0 : 2)}\n`)
    else if (live) {
      // Lines below the screen's end could not be drawn over.
      const lines = view.lines(paint).slice(0, Math.max(1, out.rows - 1))
      out.write(`${drawn === 0 ? '' : `\u001B[${drawn}A\r${CLEAR_BELOW}`}${lines.join('\n')}\n`)
      drawn = lines.length
    } else out.write(`${first ? '' : '\n'}${view.lines(paint).join('\n')}\n`)
    if (!flags.watch || (await interrupt.within(WATCH_EVERY_MS))) return
  }
}

/** Ctrl-C, or a closed reader (`| head`), ends the watching without an error. */
function interruption(watch: boolean): { within(ms: number): Promise<boolean> } {
  let over = false
  let wake = (): void => undefined
  const stop = (): void => {
    over = true
    wake()
  }
  if (watch) {
    process.once('SIGINT', stop)
    process.once('SIGTERM', stop)
  }
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    stop()
  })
  return {
    within: (ms) =>
      new Promise((resolve) => {
        if (over) return resolve(true)
        const timer = systemClock.setTimer(() => resolve(over), ms)
        wake = (): void => {
          timer.cancel()
          resolve(true)
        }
      }),
  }
}

/** Prints an error in words and sets the exit code: 1 for a finding, 2 for a usage error. */
export async function reportErrors(
  work: () => Promise<void>,
  isFinding: (code: string) => boolean = isFound,
): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error
    process.exitCode = isFinding(error.code) ? 1 : 2
    process.stderr.write(errorLine(error))
  }
}

/** The one line of an error on standard error, without passwords and without commands to the terminal. */
export function errorLine(error: unknown): string {
  const code = error instanceof SluiceError ? ` ${error.code}` : ''
  const message = error instanceof Error ? error.message : String(error)
  return `error${code}: ${printable(withoutPassword(message).replaceAll(/\s*\n\s*/g, ' '))}\n`
}

/** Whether an error is a finding of a command, rather than a wrong call. */
function isFound(code: string): boolean {
  return (FOUND.test(code) && code !== 'store.url.invalid') || code.endsWith('.unknown')
}

const FOUND = /^((store|server|dashboard|job|flow|queue\.drain)\.|unique\.conflict$)/

/** Reads a priority; its range is checked where it is stored. @throws {SluiceError} `cli.usage` */
export function priorityOf(text: string, option: string): number {
  return wholeOf(text, option, /^-?\d{1,15}$/)
}

/** Refuses what cannot be a name: an empty one, as of an unset variable of a shell, would select nothing. @throws {SluiceError} `cli.usage` */
export function requireName(text: string | undefined, what: string): void {
  if (text === undefined || isName(text)) return
  if (text !== '')
    throw new SluiceError('cli.usage', `${what} is invalid: ${quote(text)}. Expected 1 to ${LONGEST_NAME} characters.`)
  throw new SluiceError('cli.usage', `${what} is empty. Name one${what.startsWith('-') ? ', or leave it out' : ''}.`)
}

/** Reads a whole number of an option, by default without a sign. @throws {SluiceError} `cli.usage` */
export function wholeOf(text: string, option: string, form: RegExp = /^\d{1,15}$/): number {
  if (form.test(text)) return Number(text)
  throw new SluiceError('cli.usage', `${option} is invalid: ${quote(text)}. Expected a whole number.`)
}

/** Reads the port of `--port`. @throws {SluiceError} `cli.usage` */
export function portOf(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text)
  throw new SluiceError('cli.usage', `--port is invalid: ${quote(text)}. Expected a whole number from 0 to 65535.`)
}
