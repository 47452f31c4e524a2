import { type Command, Option } from 'commander'
import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { GUARD } from '../demo/scenario.ts'
import { errorLine, portOf, wholeOf } from '../view.ts'

/** The options of `sluice demo`. */
interface DemoFlags {
  readonly fast?: true
  readonly kill?: true
  readonly json?: true
  /** An address; true: the default one. */
  readonly redis?: string | true
  readonly nats?: string | true
  readonly guard: Duration
  /** The least share of a budget to be used, in per cent. */
  readonly leastUsed?: string
  readonly dashboard?: true
  readonly port: string
}

const REDIS = 'redis://127.0.0.1:6379'
const NATS = 'nats://127.0.0.1:4222'

const DETAILS = `
What it does
  A real HTTP server on 127.0.0.1 plays a partner's API with budgets of its own: each tenant's plan (10, 24 or 400 calls in
  any 5 s) and 750 calls in any 5 s over all. It logs every call and answers 429 to what is too much. 40 tenants enqueue
  over 5,000 jobs, half of them one tenant's; a worker process drains them from a SQLite file in a temporary folder, with
  each budget declared as limit(name, { window: 'sliding', max, per: '5s', guard }). Without a guard calls are refused: two
  starts 5 s apart may arrive closer than that. Urgent jobs arrive late. With --redis or --nats the budgets are kept at a Redis
  or a NATS with JetStream, as for stores that share them, and the file holds only the jobs. The demo has a namespace of its
  own there, and removes it.

What it checks, from the partner's log and the store's record
  refused calls      none
  worst window       over every half-open 5 s of the partner's log: no tenant and not the total above its budget
  budget used        at least 98 % of max × per / (per + guard) while jobs waited for it, 95 % with --redis or --nats. Left out: what the total withholds
                     from a tenant, the time between a kill and the next worker, and the burst after a worker's start until the
                     budget is used up; backlogs too short for one whole window are not measured
  jobs lost          none; every acknowledged job was completed and reached the partner
  double runs        none; with --kill only of the jobs that were in flight at the kill
  late urgent jobs   no ordinary job of the same tenant starts while one waits
  start lateness     shown, not judged: from the instant the budgets allowed a start to the handler's first line

Exit code: 0 when every promise was kept, 1 when one was broken, or a server cannot be had, 2 for a wrong option, 130 after Ctrl-C.
A live table on a terminal, plain lines elsewhere; NO_COLOR turns colours off.`

/** Adds `sluice demo`. */
export function registerDemo(program: Command): void {
  program
    .command('demo')
    .description("drain many tenants' jobs through their budgets against a real HTTP server, and check every promise")
    .addOption(new Option('--fast', 'about 1,800 jobs in about 12 s instead of over 5,000 in about 40 s'))
    .addOption(new Option('--kill', 'kill the worker process (SIGKILL) midway and go on with a new one'))
    .addOption(new Option('--redis [url]', `keep the budgets on Redis, at ${REDIS} by default`))
    .addOption(new Option('--nats [url]', `keep the budgets on NATS, at ${NATS} by default`).conflicts('redis'))
    .addOption(
      new Option(
        '--guard <duration>',
        'by how much the way to the partner may vary; try 0ms to see what it is for',
      ).default(GUARD),
    )
    .addOption(
      new Option(
        '--least-used <per cent>',
        'how much of each budget must be used while jobs wait: 98, or 95 with --redis or --nats; less on a busy machine',
      ),
    )
    .addOption(new Option('--dashboard', 'serve the dashboard beside it, and go on until Ctrl-C'))
    .addOption(new Option('--port <number>', 'where the dashboard listens; 0: any that is free').default('4680'))
    .addOption(new Option('--json', 'print the summary as JSON on standard output, and progress on standard error'))
    .addHelpText('after', DETAILS)
    .action(demo)
}

async function demo(flags: DemoFlags): Promise<void> {
  // Only this command needs the engine; --help must not wait for it to load.
  const [{ runDemo }, { openScreen }, { summaryLines }, { paintFor }] = await Promise.all([
    import('../demo/run.ts'),
    import('../demo/screen.ts'),
    import('../demo/summary-text.ts'),
    import('../demo/paint.ts'),
  ])
  const out = flags.json ? process.stderr : process.stdout
  const colours = out.isTTY && !process.env['NO_COLOR']
  const interrupt = new AbortController()
  process.once('SIGINT', () => interrupt.abort(INTERRUPTED))
  process.once('SIGTERM', () => interrupt.abort(INTERRUPTED))
  let screen = openScreen({ out, colours, source: () => null })
  try {
    const summary = await runDemo({
      fast: flags.fast === true,
      kill: flags.kill === true,
      backend: addressOf(flags.redis, REDIS) ?? addressOf(flags.nats, NATS),
      guard: flags.guard,
      leastUtilisation: flags.leastUsed === undefined ? null : perCent(flags.leastUsed),
      say: (line) => screen.say(line),
      show: (source) => {
        screen.close()
        screen = openScreen({ out, colours, source })
      },
      signal: interrupt.signal,
      dashboardPort: flags.dashboard ? portOf(flags.port) : null,
      async onSummary(each) {
        screen.close()
        if (flags.json) process.stdout.write(`${JSON.stringify(each, null, 2)}\n`)
        for (const line of summaryLines(each, paintFor(colours))) out.write(`${line}\n`)
        if (!flags.dashboard) return
        out.write('The dashboard shows what the demo left. Ctrl-C ends it.\n')
        if (!interrupt.signal.aborted)
          await new Promise((ended) => interrupt.signal.addEventListener('abort', ended, { once: true }))
      },
    })
    if (summary.broken.length > 0)
      throw new SluiceError(
        'demo.broken',
        `The demo saw ${summary.broken.length} broken promises: ${summary.broken.join('; ')}.`,
      )
  } catch (error) {
    screen.close()
    if (error !== INTERRUPTED && !(error instanceof SluiceError)) throw error
    if (!(error instanceof SluiceError)) return void (process.exitCode = 130)
    const { isWrongConfig } = await import('../serve/settings.ts')
    process.exitCode = error.code === 'demo.broken' || !isWrongConfig(error) ? 1 : 2
    process.stderr.write(errorLine(error))
  }
}

function perCent(text: string): number {
  const value = wholeOf(text, '--least-used')
  if (value <= 100) return value / 100
  throw new SluiceError('cli.usage', `--least-used is invalid: ${text}. Expected 0 to 100, in per cent.`)
}

function addressOf(flag: string | true | undefined, fallback: string): string | null {
  return flag === true ? fallback : (flag ?? null)
}

const INTERRUPTED = new Error('The demo was interrupted.')
