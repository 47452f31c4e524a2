import { amazonSellingPartner, klaviyo, shopify, shopifyGraphql, stripe, xero } from './commerce.ts'
import { freshdesk, hubspot, intercom, salesforce, zendesk } from './customer-data.ts'
import { cloudflare, digitalocean, github, githubGraphql, gitlab, jira } from './developer-tools.ts'
import { anthropic, gemini, openai } from './language-models.ts'
import { discord, resend, sendgrid, slack, twilio } from './messaging.ts'
import { airtable, asana, clickup, googleSheets, microsoftGraph, notion } from './office.ts'
import type { PresetAbout, PresetLimit } from './preset.ts'

/** A preset as data: of plans, or of counts that its caller gives. */
export interface AnyPreset {
  readonly about: PresetAbout
  /** Absent: it takes counts. */
  readonly plans?: Readonly<Record<string, Readonly<Record<string, PresetLimit>>>>
  /** Absent: it has plans. */
  readonly counted?: Readonly<Record<string, PresetLimit>>
}

/** Every preset, by the name of its API. */
export const presets: readonly AnyPreset[] = [
  airtable,
  amazonSellingPartner,
  anthropic,
  asana,
  clickup,
  cloudflare,
  digitalocean,
  discord,
  freshdesk,
  gemini,
  github,
  githubGraphql,
  gitlab,
  googleSheets,
  hubspot,
  intercom,
  jira,
  klaviyo,
  microsoftGraph,
  notion,
  openai,
  resend,
  salesforce,
  sendgrid,
  shopify,
  shopifyGraphql,
  slack,
  stripe,
  twilio,
  xero,
  zendesk,
]
