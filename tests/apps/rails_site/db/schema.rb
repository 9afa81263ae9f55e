# frozen_string_literal: true

ActiveRecord::Schema.define(version: 1) do
  create_table :notes do |t|
    t.string :title, null: false
    t.string :author
  end
  create_table :active_storage_blobs do |t|
    t.string :key, null: false, index: { unique: true }
    t.string :filename, null: false
    t.string :content_type
    t.text :metadata
    t.string :service_name, null: false
    t.bigint :byte_size, null: false
    t.string :checksum, null: false
    t.datetime :created_at, null: false
  end
  create_table :active_storage_attachments do |t|
    t.string :name, null: false
    t.references :record, null: false, polymorphic: true, index: false
    t.references :blob, null: false
    t.datetime :created_at, null: false
  end
end
