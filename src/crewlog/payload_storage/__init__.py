"""Payloads: their conversion, external storage for large ones, and the files of messages.

directory         the default directory
settings          the folder of external storage, and the size above which payloads go there
converter         values to payloads and back
external_storage  large payloads as files, and missing files and keys
file_store        the bytes of files that messages refer to
"""
