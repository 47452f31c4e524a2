import { type Command, Option } from 'commander'
import { withoutPassword } from '../../base/text.ts'
import type { Bounds } from '../../http/bounds.ts'
import type { Token } from '../../http/token.ts'
import { addServerOptions } from '../serve/options.ts'
import type { Flags, ReadSettings } from '../serve/settings.ts'
import { tableOf } from '../table.ts'
import { reportErrors, showView } from '../view.ts'

interface ConfigFlags extends Flags {
  readonly json?: true
}

/** The checked content of a configuration file. */
type Content = Partial<{
  tokens: readonly Token[]
  requests: unknown
  bounds: object
  limits: Readonly<Record<string, unknown>>
  types: Readonly<Record<string, unknown>>
  queues: Readonly<Record<string, unknown>>
}>

/** One line of the configuration. */
interface Line {
  readonly name: string
  readonly value: unknown
  readonly from: string
}

const DETAILS = `
It takes the options of sluice serve and shows what a server with them would use. Each value comes from an option, else
from a variable SLUICE_…, else from the configuration file, else it is the default. Passwords and tokens are hidden.
The store is not opened; sluice serve --check opens it, too. With --json: { settings: [{ name, value, from }] }.

Exit code: 0 when a server would take it; 2 when it would not.`

/** Adds `sluice config`. */
export function registerConfig(program: Command): void {
  const command = program.command('config').description('show and check the configuration of sluice serve')
  addServerOptions(command)
    .addOption(new Option('--json', 'print JSON'))
    .addHelpText('after', DETAILS)
    .action((flags: ConfigFlags) =>
      reportErrors(
        () => showConfig(flags),
        () => false,
      ),
    )
}

async function showConfig(flags: ConfigFlags): Promise<void> {
  const settings = await checkedLines(flags)
  await showView(flags.json ? { json: true } : {}, {
    data: { settings },
    lines: (paint) =>
      tableOf(
        [{ head: 'setting' }, { head: 'value' }, { head: 'from' }],
        settings.map(({ name, value, from }) => [name, wordsOf(value), from]),
        paint,
      ),
  })
}

/** @throws {SluiceError} if a server would not take it */
async function checkedLines(flags: ConfigFlags): Promise<readonly Line[]> {
  const [{ checkConfig }, { readSettings }] = await Promise.all([
    import('../serve/server.ts'),
    import('../serve/settings.ts'),
  ])
  const read = readSettings(flags, process.env)
  const { bounds } = checkConfig({ ...read.settings, file: read.file, testMode: false })
  return [...startLines(read), ...(await contentLines(read.json as Content, bounds))]
}

/** The settings that a server reads at its start alone. */
function startLines({ given, file }: ReadSettings): readonly Line[] {
  return [
    { name: 'config', value: file?.text ?? null, from: file?.from ?? 'default' },
    ...Object.entries(given).map(([name, { text, from }]) => ({
      name,
      value: name === 'budgets' && text === '' ? null : name === 'port' ? Number(text) : withoutPassword(text),
      from,
    })),
  ]
}

/** The settings that a server reads again at SIGHUP. Of a token it shows all but the token. */
async function contentLines(content: Content, bounds: Required<Bounds>): Promise<readonly Line[]> {
  const { tokensFrom } = await import('../serve/tokens.ts')
  const { tokens, from } = tokensFrom(process.env, content.tokens ?? [])
  const named = (part: string, of: Readonly<Record<string, unknown>> = {}): readonly Line[] =>
    Object.entries(of).map(([name, value]) => ({ name: `${part}.${name}`, value, from: 'the file' }))
  return [
    {
      name: 'tokens',
      value: tokens.map(shownToken),
      from: from === 'the configuration' ? 'the file' : (from ?? 'default'),
    },
    { name: 'requests', value: content.requests ?? null, from: content.requests ? 'the file' : 'default' },
    ...Object.entries(bounds).map(([name, value]) => ({
      name: `bounds.${name}`,
      value,
      from: Object.hasOwn(content.bounds ?? {}, name) ? 'the file' : 'default',
    })),
    ...named('limits', content.limits),
    ...named('types', content.types),
    ...named('queues', content.queues),
  ]
}

function shownToken({ token: _token, hash: _hash, ...shown }: Token): object {
  return shown
}

function wordsOf(value: unknown): string {
  if (value === null) return '–'
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map(nameOf).join(', ')
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function nameOf(value: unknown): string {
  const { name, scopes } = value as { readonly name?: string; readonly scopes: readonly string[] }
  return `${name ?? 'a token'} (${scopes.join(', ')})`
}
