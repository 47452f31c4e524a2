import { z } from 'zod'
import { type Duration, durationMs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { nearest } from '../../base/nearest.ts'
import { quote } from '../../base/options.ts'
import { jsonFaults, pathText } from '../../base/json-text.ts'
import { messageOf } from '../../base/thrown.ts'
import type { Durability } from '../../store/contract/store.ts'
import { readText } from '../read-text.ts'

/** The settings that a server reads once, when it starts. */
export interface Settings {
  readonly store: string
  readonly port: number
  readonly host: string
  /** Where the budgets of `/limiter/v1` live; undefined: the store. */
  readonly budgets: string | undefined
  /** How long a stopping server still takes requests while `/health/ready` says no, in ms. */
  readonly drainDelay: number
  readonly durability: Durability
  /** The lowest level that the log shows. */
  readonly log: string
}

/** A text as a user gave it. */
export interface SettingText {
  readonly text: string
  /** Its origin: `--port`, `SLUICE_PORT`, `the file` or `default`. */
  readonly from: string
}

/** The options of the command line as texts, by the names of the settings. */
export type Flags = Readonly<Partial<Record<keyof Settings | 'config', string>>>

type Environment = Readonly<Record<string, string | undefined>>
type Term<T> = readonly [standard: string, read: (text: string, what: string) => T]

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']
const TERMS: { readonly [K in keyof Settings]: Term<Settings[K]> } = {
  store: ['sqlite:./sluice.db', (text) => text],
  port: ['8080', portOf],
  host: ['127.0.0.1', (text) => text],
  budgets: ['', (text) => text || undefined],
  drainDelay: ['0s', (text, what) => durationMs(text as Duration, what)],
  durability: ['power', (text, what) => oneOf(['power', 'process'], text, what) as Durability],
  log: ['info', (text, what) => oneOf(LEVELS, text, what)],
}

/** The codes of errors that a right configuration can meet. */
const CANNOT_BE_HAD = /^(store\.|server\.|limiter\.backend_down$|package\.missing$)/

const NAMES = Object.keys(TERMS) as (keyof Settings)[]
const IN_FILE = 'the file'
/** Kubernetes gives the containers beside a service `sluice` such a SLUICE_PORT, with the address of the service. */
const SERVICE_LINK = /^(?:tcp|udp|sctp):\/\/\S+:\d+$/
const PREFIX = 'SLUICE_'.length
const VARIABLES = [
  'SLUICE_CONFIG',
  'SLUICE_TOKENS',
  'SLUICE_TOKENS_FILE',
  'SLUICE_DASHBOARD_TOKEN',
  ...NAMES.map(variableOf),
]

/** The settings in a configuration file, as its schema has them. */
export const SETTINGS: Readonly<Record<keyof Settings, z.ZodType>> = {
  store: z.string().min(1).optional(),
  port: z.int().min(0).max(65_535).optional(),
  host: z.string().min(1).optional(),
  budgets: z.string().min(1).optional(),
  drainDelay: z.string().optional(),
  durability: z.enum(['power', 'process']).optional(),
  log: z.enum(LEVELS).optional(),
}

/** The configuration file of a server: `--config`, else SLUICE_CONFIG. Null: there is none. */
function configFileOf(flags: Flags, env: Environment): SettingText | null {
  if (flags.config !== undefined) return { text: flags.config, from: '--config' }
  const text = env['SLUICE_CONFIG'] ?? ''
  return text === '' ? null : { text, from: 'SLUICE_CONFIG' }
}

/** Reads a configuration file as JSON. @throws {SluiceError} `cli.usage`; `option.invalid` for a name given twice */
export function readConfigFile(file: SettingText): unknown {
  let text: string
  try {
    text = readText(file.text)
  } catch (cause) {
    throw new SluiceError('cli.usage', `${file.from} ${file.text} cannot be read: ${messageOf(cause)}`, { cause })
  }
  const { brokenAt, repeated } = jsonFaults(text)
  if (brokenAt !== null)
    throw new SluiceError('cli.usage', `${file.from} ${file.text} cannot be read: it is not JSON from ${brokenAt} on.`)
  if (repeated[0] === undefined) return JSON.parse(text)
  throw new SluiceError(
    'option.invalid',
    `The configuration is invalid: ${pathText(repeated[0])} is there twice. Expected each name once.`,
  )
}

/** Finds every setting: the option, else the variable SLUICE_…, else the member of the file, else the default. */
function givenOf(flags: Flags, env: Environment, json: unknown): Readonly<Record<keyof Settings, SettingText>> {
  const file = (typeof json === 'object' && json !== null ? json : {}) as Readonly<Record<string, unknown>>
  const one = (name: keyof Settings): SettingText => {
    const option = flags[name]
    if (option !== undefined) return { text: option, from: `--${dashed(name)}` }
    const variable = variableOf(name)
    const text = env[variable] ?? ''
    if (text !== '' && !(name === 'port' && SERVICE_LINK.test(text))) return { text, from: variable }
    const member = file[name]
    if (member === undefined) return { text: TERMS[name][0], from: 'default' }
    // JSON has no text for a number that overflowed.
    const isText = typeof member === 'string' || typeof member === 'number'
    return { text: isText ? String(member) : JSON.stringify(member), from: IN_FILE }
  }
  return Object.fromEntries(NAMES.map((name) => [name, one(name)])) as Record<keyof Settings, SettingText>
}

/** Reads the texts. @throws {SluiceError} `cli.usage` for an option, `option.invalid` for a variable or the file */
function settingsOf(given: Readonly<Record<keyof Settings, SettingText>>): Settings {
  const one = (name: keyof Settings): unknown => {
    const { text, from } = given[name]
    try {
      return TERMS[name][1](text, from === IN_FILE ? `${name} of the configuration` : from)
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      throw new SluiceError(from.startsWith('--') ? 'cli.usage' : 'option.invalid', message)
    }
  }
  return Object.fromEntries(NAMES.map((name) => [name, one(name)])) as unknown as Settings
}

/** A configuration as a server takes it: where each setting is from, and what they come to. */
export interface ReadSettings {
  readonly given: Readonly<Record<keyof Settings, SettingText>>
  readonly settings: Settings
  /** The configuration file; null: none. */
  readonly file: SettingText | null
  /** Its content, not yet checked. */
  readonly json: unknown
}

/** Reads the options, the environment and the file. @throws {SluiceError} `cli.usage`, `option.invalid` */
export function readSettings(flags: Flags, env: Environment): ReadSettings {
  refuseMisspelt(env)
  const file = configFileOf(flags, env)
  const json = file === null ? {} : readConfigFile(file)
  const given = givenOf(flags, env, json)
  return { given, settings: settingsOf(given), file, json }
}

/** Whether an error tells that the configuration is wrong, rather than that its store or its port cannot be had. */
export function isWrongConfig(error: unknown): boolean {
  return error instanceof SluiceError && (error.code === 'store.url.invalid' || !CANNOT_BE_HAD.test(error.code))
}

/**
 * Refuses a variable that is nearly one of a server: with SLUICE_TOKEN it would serve all without a token. Others may
 * have names of their own.
 */
function refuseMisspelt(env: Environment): void {
  for (const [name, text = ''] of Object.entries(env)) {
    if (text === '' || !name.startsWith('SLUICE_') || VARIABLES.includes(name)) continue
    const near = nearest(
      name.slice(PREFIX),
      VARIABLES.map((each) => each.slice(PREFIX)),
      1,
    )
    if (near !== null) throw new SluiceError('option.invalid', `${name} is unknown; did you mean SLUICE_${near}?`)
  }
}

function variableOf(name: keyof Settings): string {
  return `SLUICE_${dashed(name).replaceAll('-', '_').toUpperCase()}`
}

function portOf(text: string, what: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return Number(text)
  throw new Error(`${what} is invalid: ${quote(text)}. Expected a whole number from 0 to 65535.`)
}

function oneOf(known: readonly string[], text: string, what: string): string {
  if (known.includes(text)) return text
  throw new Error(`${what} is invalid: ${quote(text)}. Expected one of ${known.join(', ')}.`)
}

function dashed(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}
