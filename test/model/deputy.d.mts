// Types of deputy.mjs.
import { Model } from './lanes.mjs'

export declare class Deputy extends Model {}
