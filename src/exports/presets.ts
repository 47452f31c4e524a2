/** The limits of real APIs, by plan. */
import '../base/supported-node.ts'
export { amazonSellingPartner, klaviyo, shopify, shopifyGraphql, stripe, xero } from '../presets/commerce.ts'
export { freshdesk, hubspot, intercom, salesforce, zendesk } from '../presets/customer-data.ts'
export { cloudflare, digitalocean, github, githubGraphql, gitlab, jira } from '../presets/developer-tools.ts'
export { presets, type AnyPreset } from '../presets/every-preset.ts'
export { anthropic, gemini, openai } from '../presets/language-models.ts'
export { discord, resend, sendgrid, slack, twilio } from '../presets/messaging.ts'
export { airtable, asana, clickup, googleSheets, microsoftGraph, notion } from '../presets/office.ts'
export type {
  CountedPreset,
  Preset,
  PresetAbout,
  PresetLimit,
  PresetOptions,
  PresetRefusal,
  PresetSource,
} from '../presets/preset.ts'
